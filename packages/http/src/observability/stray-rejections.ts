/**
 * Keeps the process running when a promise is rejected that no code awaits. By default Node.js ends the process, so that
 * a mistake in one job or consumer would end the requests of all clients. An exception that no code catches still does: it
 * may have left any function halfway.
 */
import { channel } from 'node:diagnostics_channel'
import { getChannelName } from '@resource-api/database/values'
import type { FastifyBaseLogger } from 'fastify'

const strayChannel = channel(getChannelName('process:stray-rejection'))

/** Logs and counts stray rejections of the process from now on. @returns a function that ends this */
export function logStrayRejections(log: Pick<FastifyBaseLogger, 'error'>): () => void {
  const onRejection = (err: unknown) => {
    strayChannel.publish({ count: 1 })
    log.error({ err }, 'a promise was rejected that no code awaits')
  }
  process.on('unhandledRejection', onRejection)
  return () => process.off('unhandledRejection', onRejection)
}
