/** Does the work that requests of the project have enqueued. */

import { toWorkKind } from '@resource-api/resources/internal'
import { createSlots, toErrorText, type WorkKind } from '@resource-api/work'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { checkUnique, createWorkRunner, getWorkOptions } from '../background/own-work.ts'
import { workChannel } from './channels.ts'
import type { Work } from './definition.ts'
import { addWorkMetrics } from './metrics.ts'

export interface OwnWorkOptions {
  work: readonly Work[]
  /** How long a claim lasts that is not renewed. */
  leaseMs?: number | undefined
}

async function ownWork(app: FastifyInstance, { work, leaseMs }: OwnWorkOptions) {
  checkUnique('kinds of work', work)
  const runWork = createWorkRunner(getWorkOptions(app))
  const kinds = work.map(({ name, timeoutMs, concurrency, maxAttempts, getDelay, run }): WorkKind => {
    const log = app.log.child({ work: name })
    return {
      name: toWorkKind(name),
      slots: createSlots(concurrency),
      ...{ timeoutMs, leaseMs, keepDays: 30 },
      async run({ id, attempts, key, payload }, { signal }) {
        // The attempts before were begun, and never failed.
        if (attempts > maxAttempts) throw new Error('each attempt has ended its process')
        await runWork(log, signal, (context) => run(payload, { ...context, id, attempts }))
        workChannel.publish({ name, result: 'succeeded' })
        // The row of a key stays, so that the key is not used again.
        return { status: 'succeeded', error: null, payload: {}, isRemoved: key === null }
      },
      fail({ id, attempts }, err) {
        const delayMs = getDelay(attempts)
        workChannel.publish({ name, result: 'failed' })
        if (delayMs === null) log.error({ err, id, attempts }, 'work has failed for good')
        else log.warn({ err, id, attempts, retry_in_ms: delayMs }, 'work has failed: it is attempted again')
        return { status: delayMs === null ? 'failed' : 'pending', delayMs, error: toErrorText(err) }
      },
    }
  })
  if (app.addMetric && kinds.length > 0) addWorkMetrics(app.addMetric, work, app.work)
  app.addHook('onReady', async () => {
    for (const kind of kinds) await app.work.add(kind)
  })
}

export default fp(ownWork, { name: 'own-work', dependencies: ['mail', 'outbox', 'work'] })
