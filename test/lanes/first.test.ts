/** A third of the tests of `npm test`. */
import { runShare } from '../helpers/run-files.ts'

await runShare(0, { extended: false })
