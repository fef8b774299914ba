/** The face of the package for the other packages: what an application does not need. */

export type {} from './index.ts'
export { describeWebhooks } from './webhooks/openapi.ts'
