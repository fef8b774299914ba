/** The rules of `plugins` grant what `access-matrix.json` promises, and every route answers every role so. */
import { checkAccess, checkRowAccess, loadExamples } from '@resource-api/testing'
import t from 'tap'
import { buildApp } from '../src/app.ts'

// Thousands of requests.
t.setTimeout(600_000)

const options = { examples: await loadExamples('test') }
await checkAccess(t, buildApp, options)
await checkRowAccess(t, buildApp, options)
