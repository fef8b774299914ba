/** The tests of an application but that of its documents. */
import { runTests } from './application.ts'

await runTests(false)
