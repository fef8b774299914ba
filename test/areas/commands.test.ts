/** Runs the files of `test/commands` in one process. */
import { runArea } from '../helpers/run-files.ts'

await runArea('commands')
