/** Runs the files of `test/resources` in one process, with the project's own resources. */
import { runArea } from '../helpers/run-files.ts'

await runArea('resources')
