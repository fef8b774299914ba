/** Hands events to the consumers of the project, each in one process at a time. Without consumers, it does nothing. */
import { isObject } from '@resource-api/database/internal'
import { type Actor, createClaimWorker, NO_USER_ID } from '@resource-api/http/internal'
import { v1 } from '@resource-api/http/versions'
import { toTimestamp } from '@resource-api/resources/internal'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { checkUnique } from '../background/own-work.ts'
import { createEventMapper, type EventRow } from '../events/represent-event.ts'
import { type ConsumerState, register } from './consumer-store.ts'
import { type ConsumedEvent, type Consumer, checkTypes } from './definition.ts'
import { createConsumerRunner } from './runner.ts'

export interface ConsumersOptions {
  consumers: readonly Consumer[]
  /** How long a claim lasts that is not renewed. */
  leaseMs?: number | undefined
}

interface Consumers {
  /** Looks for events now. */
  wake(): void
  /** Returns the stored states, as last read; undefined after a failure. */
  getStates(): readonly ConsumerState[] | undefined
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Undefined without consumers. */
    consumers: Consumers | undefined
  }
}

/** Who reads the data of events: fields that depend on the caller have the values for an admin. */
const READER: Actor = { userId: NO_USER_ID, role: 'admin', scopes: new Set(['*']), credential: 'token' }

/** Creates the function that represents events in a version, with the fields of resources and not their envelope. */
function createToEvent({ events }: FastifyInstance, version: number): (row: EventRow) => ConsumedEvent {
  const mapper = createEventMapper(events.resource, events.resources, [{ ...v1, version }])
  const toRecord = (value: unknown) => (isObject(value) ? value : null)
  return (row) => {
    const { id, position, type, resource_type, resource_id, revision } = row
    const { actor_id, credential, credential_id, request_id } = row
    const { columns, previous } = mapper.toRow(row, READER, version)
    return {
      ...{ id, position, type, resource_type, resource_id, revision },
      ...{ actor_id, credential, credential_id, request_id },
      data: toRecord(columns) ?? {},
      previous: toRecord(previous),
      created_at: toTimestamp(row.created_at),
    }
  }
}

async function consumersPlugin(app: FastifyInstance, { consumers, leaseMs }: ConsumersOptions) {
  app.decorate('consumers', undefined)
  if (consumers.length === 0) return
  const { database, events, feed, log, mail, outbox, settings } = app
  const names = consumers.map(({ name }) => name)
  if (!feed) throw new Error(`EVENTS is false, but consumers need events: ${names.join(', ')} (src/own.ts)`)
  checkUnique('consumers', consumers)
  checkTypes(
    consumers,
    events.resources.map(({ name }) => name),
  )
  const { readPage } = events
  const toEvent = createToEvent(
    app,
    Math.max(...app.versions.map(({ representation }) => representation.version)),
  )
  const runner = createConsumerRunner({
    ...{ database, log, mail, settings, consumers, readPage, toEvent, leaseMs },
    ...outbox,
  })
  let states: readonly ConsumerState[] = []

  /** Returns the milliseconds until a consumer is looked at again; an event wakes one that has none before it. */
  const getDelay = ({ position, last_position, leased_for_ms, attempt_in_ms, is_claimed }: ConsumerState) => {
    if (is_claimed) return runner.leaseMs
    if (position === last_position) return Number.POSITIVE_INFINITY
    // The process that has the claim may give it back before the end of its lease.
    if ((leased_for_ms ?? 0) > 0) return Math.min(leased_for_ms ?? 0, feed.getPollInterval())
    return attempt_in_ms ?? 0
  }

  const worker = createClaimWorker({
    log,
    title: 'consumers',
    async claimDue() {
      const read = await runner.claim()
      states = read.states
      // Rows are missing in a database that was restored from an older backup.
      const isComplete = states.length === consumers.length
      if (!isComplete) await register(database, consumers)
      return { claimed: read.claimed, dueInMs: isComplete ? Math.min(...states.map(getDelay)) : 0 }
    },
    run: runner.run,
  })

  app.consumers = { wake: worker.wake, getStates: () => (worker.hasFailed() ? undefined : states) }
  feed.onAdvance(worker.wake)
  app.addHook('onReady', async () => {
    await register(database, consumers)
    worker.start()
  })
  app.addHook('preClose', worker.pause)
  // Fastify runs onClose hooks in reverse order, so this one runs before the database closes.
  app.addHook('onClose', worker.stop)
}

export default fp(consumersPlugin, {
  name: 'consumers',
  dependencies: ['database', 'events', 'mail', 'outbox'],
})
