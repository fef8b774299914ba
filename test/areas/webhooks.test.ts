/** Runs the files of `test/webhooks` in one process. */
import { runArea } from '../helpers/run-area.ts'

await runArea('webhooks')
