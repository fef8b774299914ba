/** What remains of the tests of `npm test`, beside those of the own list. */
import { runShare } from '../helpers/run-files.ts'

await runShare(1, { extended: false })
