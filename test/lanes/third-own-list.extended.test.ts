/** The tests of the own list of resources that only `npm run test:all` runs. */
import { runOwnList } from '../helpers/run-files.ts'

await runOwnList({ extended: true })
