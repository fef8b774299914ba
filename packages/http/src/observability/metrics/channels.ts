/** Counts the events that other plugins publish on the diagnostics channels. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { getChannelName } from '@resource-api/database/values'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

const WAIT_BUCKETS_SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2]
/** From the delay after a commit to an outage of the database. */
const DELAY_BUCKETS_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300]
const LABEL_VALUE = /^[\w.-]{1,40}$/
/** Each value of a label is a time series for as long as the process runs. */
const MAX_LABEL_VALUES = 20

/** Channels whose messages are counted by the field `label`; without one, their field `count` is added up. */
const COUNTED: Record<string, { name: string; label?: string; help: string }> = {
  'events:removed': {
    name: 'events_removed_total',
    help: 'Events that were removed after EVENTS_RETENTION_DAYS.',
  },
  'events:stream-ended': {
    name: 'event_streams_ended_total',
    label: 'reason',
    help: 'Event streams that ended, by reason: client, credential, shutdown, unread, expired, error.',
  },
  'auth:refused': {
    name: 'authentication_failures_total',
    label: 'kind',
    help: 'Requests rejected with 401, by kind of credential: none, token, key, password, refresh_token.',
  },
  'http:malformed': {
    name: 'http_malformed_requests_total',
    label: 'status',
    help: 'Malformed requests that were rejected before routing, by status.',
  },
  'limits:refused': {
    name: 'rate_limit_refused_total',
    label: 'window',
    help: 'Requests rejected with 429, by the limit that was exceeded.',
  },
  'idempotency:pruned': {
    name: 'idempotency_keys_pruned_total',
    help: 'Stored responses that were deleted because they had expired.',
  },
  'database:retry': {
    name: 'database_retries_total',
    label: 'code',
    help: 'Transactions that were retried, by the SQLSTATE of the failure.',
  },
  'webhooks:attempt': {
    name: 'webhook_attempts_total',
    label: 'result',
    help: 'Requests to webhook endpoints, by result: succeeded, failed.',
  },
  'webhooks:delivery': {
    name: 'webhook_deliveries_total',
    label: 'result',
    help: 'Deliveries that ended, by result: succeeded, failed (after the last attempt, or not sent).',
  },
  'mail:ended': {
    name: 'mails_total',
    label: 'result',
    help: 'Mails that ended, by result: sent, failed (after the last attempt).',
  },
  'process:stray-rejection': {
    name: 'process_stray_rejections_total',
    help: 'Promises that were rejected and that no code awaits: mistakes in the code, which the log names.',
  },
  'contention:refused': {
    name: 'contention_refused_total',
    label: 'reason',
    help: 'Requests rejected with 503 because of what other requests hold, by reason.',
  },
  'overload:refused': {
    name: 'overload_refused_total',
    label: 'reason',
    help: 'Requests rejected with 503 under overload, by reason.',
  },
  'overload:unread': {
    name: 'overload_unread_responses_total',
    label: 'reason',
    help: 'Connections closed because the client did not read its response, by exceeded limit: time, memory.',
  },
}

const readField = (message: unknown, field: string): unknown =>
  message instanceof Object ? Reflect.get(message, field) : undefined

/** Returns a number in a message; 0 if the field is not a positive number. */
function readNumber(message: unknown, field: string): number {
  const value = readField(message, field)
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0
}

/** Returns a function that reads a field of a message: the first 20 values, and `other` for all later ones. */
function createLabelReader(field: string): (message: unknown) => string {
  const known = new Set<string>()
  return (message) => {
    const value = String(readField(message, field))
    if (known.has(value)) return value
    if (!LABEL_VALUE.test(value) || known.size >= MAX_LABEL_VALUES) return 'other'
    known.add(value)
    return value
  }
}

/** Subscribes to the channels. @returns a function that unsubscribes */
export function subscribeToChannels(registry: Registry): () => void {
  const registers = [registry]
  const outcomes = new Counter({
    name: 'idempotency_requests_total',
    help: 'Requests with a known Idempotency-Key: replayed, mismatch (different body), in_progress.',
    labelNames: ['outcome'],
    registers,
  })
  const store = new Gauge({
    name: 'rate_limit_store_up',
    help: 'Whether rate limits are counted in the shared store (1) or in the memory of each process (0).',
    aggregator: 'min',
    registers,
  })
  store.set(1)
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

  const addRuns = (name: string, help: string) => {
    const counter = new Counter({ name, help, labelNames: ['name', 'result'], registers })
    const getResult = createLabelReader('result')
    // A definition has the name, not a client.
    return (message: unknown) =>
      counter.inc({ name: String(readField(message, 'name')), result: getResult(message) })
  }

  const subscribers = new Map<string, (message: unknown) => void>([
    ['limits:store', (message) => store.set(readField(message, 'state') === 'own' ? 0 : 1)],
    ['jobs:run', addRuns('job_runs_total', 'Runs of jobs in this process, by result: succeeded, failed.')],
    [
      'work:attempt',
      addRuns(
        'work_attempts_total',
        'Attempts of work of the project in this process, by result: succeeded, failed.',
      ),
    ],
    [
      'consumers:handled',
      addRuns(
        'consumer_events_total',
        'Attempts of consumers of this process to handle an event, by result: succeeded, failed.',
      ),
    ],
    ['database:wait', (message) => wait.observe(readNumber(message, 'milliseconds') / 1000)],
    [
      'events:assigned',
      (message) => {
        const delays = readField(message, 'delays')
        if (!Array.isArray(delays)) return
        assigned.inc(delays.length)
        for (const seconds of delays) delay.observe(Number(seconds))
      },
    ],
  ])
  for (const outcome of ['replayed', 'mismatch', 'in_progress']) {
    outcomes.inc({ outcome }, 0)
    subscribers.set(`idempotency:${outcome.replace('_', '-')}`, () => outcomes.inc({ outcome }))
  }
  for (const [event, { label, ...options }] of Object.entries(COUNTED)) {
    const counter = new Counter({ ...options, labelNames: label === undefined ? [] : [label], registers })
    const getLabel = createLabelReader(label ?? '')
    subscribers.set(event, (message) => {
      if (label === undefined) counter.inc(readNumber(message, 'count'))
      else counter.inc({ [label]: getLabel(message) })
    })
  }
  for (const [event, subscriber] of subscribers) subscribe(getChannelName(event), subscriber)
  return () => {
    for (const [event, subscriber] of subscribers) unsubscribe(getChannelName(event), subscriber)
  }
}
