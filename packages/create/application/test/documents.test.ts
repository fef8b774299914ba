/** The OpenAPI documents say what the service does, and their examples succeed. */
import { checkDocuments, checkExamples, loadExamples } from '@resource-api/testing'
import t from 'tap'
import { buildApp } from '../src/app.ts'

// Thousands of requests.
t.setTimeout(600_000)

const options = { examples: await loadExamples('test') }
await checkDocuments(t, buildApp, options)
await checkExamples(t, buildApp, options)
