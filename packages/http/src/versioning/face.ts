/** The face of the versions: their envelopes, and the plugins of a version's scope. */
export { createAddressing, default as versionScope, type Version } from './index.ts'
export { default as representRoutes } from './represent-routes.ts'
export { v1 } from './representation/v1.ts'
export { v2 } from './representation/v2.ts'
