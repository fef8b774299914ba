/** An event: a change of a resource, as the feed, the stream and webhooks deliver it. */
import type { Resource } from './types.ts'

/** A change of a resource. */
export type ResourceEvent = Resource<'/api/v1/events'>
