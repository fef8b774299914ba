/** The OpenAPI documents say what the service does, and their examples succeed. */
import { checkDocuments, checkExamples } from '@resource-api/testing'
import t from 'tap'
import { buildApp } from '../src/app.ts'

await checkDocuments(t, buildApp)
await checkExamples(t, buildApp)
