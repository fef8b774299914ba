/** Runs the files of `test/client-package` in one process. */
import { runArea } from '../helpers/run-files.ts'

await runArea('client-package')
