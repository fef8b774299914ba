/** Runs the files of `test/mail` in one process. */
import { runArea } from '../helpers/run-files.ts'

await runArea('mail')
