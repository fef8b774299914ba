/**
 * Shares between processes who wrote recently, so that the reads of these users go to the primary in each of them. A mark
 * in Redis names each writer.
 */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

declare module 'fastify' {
  interface FastifyInstance {
    /** Reads whether a user wrote in another process; null without replicas or without Redis. */
    readWriterMark: ((userId: string) => Promise<void>) | null
  }
}

async function sharedWriters(app: FastifyInstance) {
  const { redis } = app
  const writers = app.database.replicas?.recentWriters
  app.decorate('readWriterMark', null)
  if (!redis || !writers) return

  writers.shareBy(async (userId, lifetime) => {
    await redis.run(
      (client) => client.set(`writers:${userId}`, 1, 'PX', lifetime),
      () => null,
    )
  })
  app.readWriterMark = async (userId) => {
    const remaining = await redis.run(
      (client) => client.pttl(`writers:${userId}`),
      () => 0,
    )
    if (remaining > 0) writers.add(userId, remaining)
  }
  // Without Redis, writes in other processes are unknown.
  redis.onChange((failure) => writers.pause(failure !== undefined))
}

export default fp(sharedWriters, {
  name: 'shared-writers',
  dependencies: ['database'],
  decorators: { fastify: ['redis'] },
})
