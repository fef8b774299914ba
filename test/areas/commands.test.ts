/** Runs the files of `test/commands` in one process. */
import { runArea } from '../helpers/run-area.ts'

await runArea('commands')
