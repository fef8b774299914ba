/** Runs the files of `test/docs` in one process. */
import { runArea } from '../helpers/run-area.ts'

await runArea('docs')
