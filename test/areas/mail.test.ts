/** Runs the files of `test/mail` in one process. */
import { runArea } from '../helpers/run-area.ts'

await runArea('mail')
