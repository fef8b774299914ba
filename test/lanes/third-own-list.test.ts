/** The tests of the own list of resources, without the fixtures. */
import { runOwnList } from '../helpers/run-files.ts'

await runOwnList({ extended: false })
