/** The face of the package: what the tests of an application use. */
export { testApp } from './app.ts'
export { checkAccess } from './check-access.ts'
export { checkDocuments } from './check-documents.ts'
export { checkExamples } from './check-examples.ts'
export { checkRowAccess } from './check-row-access.ts'
export { type Client, createClient, type Json, type Reply } from './client.ts'
export { describeList } from './definitions.ts'
export { createExampleRows } from './example-rows.ts'
export { type Examples, getDay, getTime, loadExamples, UNKNOWN_ID } from './examples.ts'
export { listen } from './listen.ts'
export { getIds, getViolations } from './replies.ts'
export { SERVER } from './templates.ts'
export {
  createUniqueName,
  createVersionedClient,
  type VersionedClient,
} from './versioned-client.ts'
export { waitUntil } from './wait-until.ts'
