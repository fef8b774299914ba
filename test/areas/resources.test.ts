/** Runs the files of `test/resources` in one process, with the project's own resources. */
import { runArea } from '../helpers/run-area.ts'

await runArea('resources')
