/** Runs the files of `test/collection` in one process. */
import { runArea } from '../helpers/run-area.ts'

await runArea('collection')
