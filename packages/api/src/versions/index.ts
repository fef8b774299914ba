/** Versions: addresses, `Accept`, envelopes, and the plugins of the scope of a version. */
export { EXPORT_TYPES, STREAM_TYPES, type StreamType, VENDOR_TYPE } from './accept.ts'
export { type Address, type Addressing, createAddressing, VARY } from './addresses.ts'
export { default as representRoutes } from './represent-routes.ts'
export type { FieldMapping, FieldMappings, Page, Representation } from './representation/types.ts'
export { v1 } from './representation/v1.ts'
export { v2 } from './representation/v2.ts'
export type { ResourceWriter } from './resource-writer.ts'
export { default as versionScope, listServed, type Version } from './scope.ts'
