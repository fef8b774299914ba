/** The commands of the package, and what commands share. */
export { createAccessCommand } from './access.ts'
export { buildDocumentApp, createOpenapiCommand, renderDocuments } from './openapi.ts'
