/** Runs the files of `test/collection` in one process. */
import { runArea } from '../helpers/run-files.ts'

await runArea('collection')
