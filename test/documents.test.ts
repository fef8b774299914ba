/** The OpenAPI documents say what the service does, and their examples succeed. */
import { checkDocuments, checkExamples, loadExamples } from '@resource-api/testing'
import t from 'tap'
import { buildApp } from '../src/app.ts'

const examples = await loadExamples('test')

await checkDocuments(t, buildApp, { examples })
await checkExamples(t, buildApp, { examples })
