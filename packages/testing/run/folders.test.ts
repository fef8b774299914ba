/** The tests of some folders in one process: `TEST_FOLDERS=packages/http/test/limits npx tap packages/testing/run/folders.test.ts`. */
import { runFolders } from './run-files.ts'

await runFolders()
