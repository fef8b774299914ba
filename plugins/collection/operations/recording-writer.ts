/** Sends later reads of a caller who has written to the primary. */
import type { FastifyInstance, RouteGenericInterface } from 'fastify'
import type { Handler } from '../options.ts'

/**
 * Records the caller of a write. It does so before the response is sent, since the next request may be a read, and also
 * after a failure, since the write may have been committed.
 */
export function recordingWriter<Route extends RouteGenericInterface>(
  { replicas }: FastifyInstance['database'],
  handler: Handler<Route>,
): Handler<Route> {
  if (!replicas) return handler
  return async (request, reply) => {
    try {
      return await handler(request, reply)
    } finally {
      const { actor } = request
      if (actor && actor.credential !== 'none') await replicas.recentWriters.publish(actor.userId)
    }
  }
}
