/** Hands events to the consumers of the project, each in one process at a time. Without consumers, it does nothing. */
import { type Actor, NO_USER_ID } from '@resource-api/api/actor'
import { v1 } from '@resource-api/api/versions'
import { BackgroundTask } from '@resource-api/database/concurrency'
import { isObject } from '@resource-api/database/values'
import { toTimestamp } from '@resource-api/resources/internal'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { checkUnique, getWorkOptions } from '../background/own-work.ts'
import { createEventMapper, type EventRow } from '../events/represent-event.ts'
import { type ConsumedEvent, type Consumer, checkTypes } from './definition.ts'
import { type ConsumerState, createConsumerKind, markConsumers, toConsumerKind } from './kind.ts'

export interface ConsumersOptions {
  consumers: readonly Consumer[]
  /** How long a claim lasts that is not renewed. */
  leaseMs?: number | undefined
}

interface Consumers {
  /** Returns the stored states by name, as last read, with the last position of the feed; none while the database fails. */
  getStates(): [name: string, state: ConsumerState & { last_position: number }][]
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Undefined without consumers. */
    consumers: Consumers | undefined
  }
}

/** Consumers are woken by the feed; what that may have missed is found after this time. */
const MAX_INTERVAL_MS = 60_000
/** Pause after a failure of the database. */
const RETRY_DELAY_MS = 1_000

/** Who reads the data of events: fields that depend on the caller have the values for an admin. */
const READER: Actor = { userId: NO_USER_ID, role: 'admin', scopes: new Set(['*']), credential: 'token' }

/** Creates the function that represents events in a version, with the fields of resources and not their envelope. */
function createToEvent({ events }: FastifyInstance, version: number): (row: EventRow) => ConsumedEvent {
  const mapper = createEventMapper(events.resource, events.resources, [{ ...v1, version }])
  const toRecord = (value: unknown) => (isObject(value) ? value : null)
  return (row) => {
    const { id, position, type, resource_type, revision } = row
    const { actor_id, credential, credential_id, request_id } = row
    const { columns, previous, resource_id } = mapper.toRow(row, READER, version)
    return {
      ...{ id, position, type, resource_type, resource_id: String(resource_id), revision },
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
  const { database, events, feed, log, work } = app
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
  /** The last position of the feed that this process knows, and whether consumers may wait for events before it. */
  let last = 0
  let isNew = false
  const announcing: BackgroundTask = new BackgroundTask({
    async work() {
      isNew = false
      if (await markConsumers(database, names)) work.wake()
    },
    getDelay: () => (isNew ? 0 : MAX_INTERVAL_MS),
    retryDelay: RETRY_DELAY_MS,
    onFailure: (err) => log.warn({ err }, 'consumers could not be woken'),
  })
  const announce = () => {
    isNew = true
    announcing.wake()
  }
  const kinds = consumers.map((consumer) =>
    createConsumerKind(consumer, { ...getWorkOptions(app), readPage, toEvent, leaseMs, onRest: announce }),
  )

  app.consumers = {
    getStates: () =>
      names.flatMap((name) => {
        const payload = work.getState(toConsumerKind(name))?.payload
        // The row was written by the kind.
        return payload ? [[name, { ...(payload as ConsumerState), last_position: last }]] : []
      }),
  }
  feed.onAdvance(({ position }) => {
    last = position
    announce()
  })
  app.addHook('onReady', async () => {
    for (const kind of kinds) await work.add(kind)
    // Without a pause: the feed may have advanced before.
    announcing.start()
  })
  app.addHook('preClose', () => announcing.stop())
}

export default fp(consumersPlugin, {
  name: 'consumers',
  dependencies: ['database', 'events', 'mail', 'outbox', 'work'],
})
