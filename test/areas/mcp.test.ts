/** Runs the files of `test/mcp` in one process. */
import { runArea } from '../helpers/run-files.ts'

await runArea('mcp')
