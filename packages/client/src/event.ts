/** An event: a change of a resource, as the feed, the stream and webhooks deliver it. */
import type { paths } from './openapi.ts'
import type { Resource } from './types.ts'

/** A change of a resource. */
export type ResourceEvent = Resource<paths, '/api/v1/events'>
