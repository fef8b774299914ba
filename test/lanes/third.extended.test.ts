/** A third of the tests that only `npm run test:all` runs. */
import { runShare } from '../helpers/run-files.ts'

await runShare(2, { extended: true })
