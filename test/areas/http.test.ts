/** Runs the files of `test/http` in one process. */
import { runArea } from '../helpers/run-area.ts'

await runArea('http')
