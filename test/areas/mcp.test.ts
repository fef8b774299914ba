/** Runs the files of `test/mcp` in one process. */
import { runArea } from '../helpers/run-area.ts'

await runArea('mcp')
