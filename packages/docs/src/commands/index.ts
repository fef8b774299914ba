/** The commands of the package, and what commands share. */
export { buildDocumentApp, createOpenapiCommand, renderDocuments } from './openapi.ts'
