/** Runs the files of `test/docs` in one process. */
import { runArea } from '../helpers/run-files.ts'

await runArea('docs')
