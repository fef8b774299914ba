/** A third of the tests of `npm test`. */
import { runShare } from './run-files.ts'

await runShare(2)
