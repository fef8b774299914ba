/** Runs the files of `test/webhooks` in one process. */
import { runArea } from '../helpers/run-files.ts'

await runArea('webhooks')
