/** Counts the events that other plugins publish on the diagnostics channels. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { getChannelName } from '../../../lib/identity.ts'
import { createLabelReader, readNumber, readNumbers } from './labels.ts'

type Subscriber = (message: unknown) => void

const WAIT_BUCKETS_SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2]

/** From the delay after a commit to an outage of the database. */
const DELAY_BUCKETS_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300]

/** @returns the subscriber of each channel, by `{area}:{event}` */
function createSubscribers(registers: Registry[]): Record<string, Subscriber> {
  /** Counts messages by one of their fields. */
  const countBy = (field: string, name: string, help: string): Subscriber => {
    const counter = new Counter({ name, help, labelNames: [field], registers })
    const getLabel = createLabelReader(field)
    return (message) => counter.inc({ [field]: getLabel(message) })
  }
  const outcomes = new Counter({
    name: 'idempotency_requests_total',
    help: 'Requests with a known Idempotency-Key: replayed, mismatch (different body), in_progress.',
    labelNames: ['outcome'],
    registers,
  })
  const countOutcome = (name: string): Subscriber => {
    outcomes.inc({ outcome: name }, 0)
    return () => outcomes.inc({ outcome: name })
  }
  const pruned = new Counter({
    name: 'idempotency_keys_pruned_total',
    help: 'Stored responses that were deleted because they had expired.',
    registers,
  })
  const store = new Gauge({
    name: 'rate_limit_store_up',
    help: 'Whether rate limits are counted in the shared store (1) or in the memory of each process (0).',
    registers,
  })
  store.set(1)
  const getState = createLabelReader('state')
  const wait = new Histogram({
    name: 'database_pool_wait_seconds',
    help: 'Time for which requests waited for a database connection, if none was free.',
    buckets: WAIT_BUCKETS_SECONDS,
    registers,
  })
  const assigned = new Counter({
    name: 'events_total',
    help: 'Events to which this process assigned a position.',
    registers,
  })
  const delay = new Histogram({
    name: 'event_position_delay_seconds',
    help: 'Time from the creation of an event to its position.',
    buckets: DELAY_BUCKETS_SECONDS,
    registers,
  })
  const removed = new Counter({
    name: 'events_removed_total',
    help: 'Events that were removed after EVENTS_RETENTION_DAYS.',
    registers,
  })
  return {
    'events:assigned': (message) => {
      const delays = readNumbers(message, 'delays')
      assigned.inc(delays.length)
      for (const seconds of delays) delay.observe(seconds)
    },
    'events:removed': (message) => removed.inc(readNumber(message, 'count')),
    'events:stream-ended': countBy(
      'reason',
      'event_streams_ended_total',
      'Event streams that ended, by reason: client, credential, shutdown, unread, expired, error.',
    ),
    'auth:refused': countBy(
      'kind',
      'authentication_failures_total',
      'Requests rejected with 401, by kind of credential: none, token, key, password, refresh_token.',
    ),
    'http:malformed': countBy(
      'status',
      'http_malformed_requests_total',
      'Malformed requests that were rejected before routing, by status.',
    ),
    'limits:refused': countBy(
      'window',
      'rate_limit_refused_total',
      'Requests rejected with 429, by the limit that was exceeded.',
    ),
    'limits:store': (message) => store.set(getState(message) === 'own' ? 0 : 1),
    'idempotency:replayed': countOutcome('replayed'),
    'idempotency:mismatch': countOutcome('mismatch'),
    'idempotency:in-progress': countOutcome('in_progress'),
    'idempotency:pruned': (message) => pruned.inc(readNumber(message, 'count')),
    'database:retry': countBy(
      'code',
      'database_retries_total',
      'Transactions that were retried, by the SQLSTATE of the failure.',
    ),
    'database:wait': (message) => wait.observe(readNumber(message, 'milliseconds') / 1000),
    'webhooks:attempt': countBy(
      'result',
      'webhook_attempts_total',
      'Requests to webhook endpoints, by result: succeeded, failed.',
    ),
    'webhooks:delivery': countBy(
      'result',
      'webhook_deliveries_total',
      'Deliveries that ended, by result: succeeded, failed (after the last attempt, or not sent).',
    ),
    'overload:refused': countBy(
      'reason',
      'overload_refused_total',
      'Requests rejected with 503 under overload, by reason.',
    ),
    'overload:untaken': countBy(
      'reason',
      'overload_untaken_answers_total',
      'Connections closed because the client did not read its response, by exceeded limit: time, memory.',
    ),
  }
}

/** Subscribes to the channels. @returns a function that unsubscribes */
export function subscribeToChannels(registry: Registry): () => void {
  const subscribers = Object.entries(createSubscribers([registry]))
  for (const [event, subscriber] of subscribers) subscribe(getChannelName(event), subscriber)
  return () => {
    for (const [event, subscriber] of subscribers) unsubscribe(getChannelName(event), subscriber)
  }
}
