/** The test of the documents of an application. */
import { runTests } from './application.ts'

await runTests(true)
