/** Runs the files of `test/http` in one process. */
import { runArea } from '../helpers/run-files.ts'

await runArea('http')
