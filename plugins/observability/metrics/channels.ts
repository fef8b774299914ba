/** What other plugins publish, counted: channels named `resource-api:{area}:{event}`, so that none of them knows of metrics. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { createLabel, numberIn } from './labels.ts'

type Take = (message: unknown) => void

const WAITS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2]

/** @returns by channel, what its messages do */
function counters(registers: Registry[]): Record<string, Take> {
  /** Counts messages by one of their members. */
  const by = (member: string, name: string, help: string): Take => {
    const counter = new Counter({ name, help, labelNames: [member], registers })
    const label = createLabel(member)
    return (message) => counter.inc({ [member]: label(message) })
  }
  const outcomes = new Counter({
    name: 'idempotency_requests_total',
    help: 'Requests whose Idempotency-Key was known: replayed, mismatch (another body), in_progress.',
    labelNames: ['outcome'],
    registers,
  })
  const outcome = (name: string): Take => {
    outcomes.inc({ outcome: name }, 0)
    return () => outcomes.inc({ outcome: name })
  }
  const pruned = new Counter({
    name: 'idempotency_keys_pruned_total',
    help: 'Stored replies that were deleted because their time was over.',
    registers,
  })
  const store = new Gauge({
    name: 'rate_limit_store_up',
    help: 'Whether rate limits are counted in their common store (1), or by each process for itself (0).',
    registers,
  })
  store.set(1)
  const state = createLabel('state')
  const waited = new Histogram({
    name: 'database_pool_wait_seconds',
    help: 'How long requests that found no free connection waited until they had one.',
    buckets: WAITS,
    registers,
  })
  return {
    'auth:refused': by(
      'kind',
      'authentication_failures_total',
      'Credentials refused (401): none, token, key, password, refresh_token.',
    ),
    'http:malformed': by(
      'status',
      'http_malformed_requests_total',
      'What the HTTP parser refused before it was a request, by status.',
    ),
    'limits:refused': by(
      'window',
      'rate_limit_refused_total',
      'Requests refused (429), by the window that was full.',
    ),
    'limits:store': (message) => store.set(state(message) === 'own' ? 0 : 1),
    'idempotency:replayed': outcome('replayed'),
    'idempotency:mismatch': outcome('mismatch'),
    'idempotency:in-progress': outcome('in_progress'),
    'idempotency:pruned': (message) => pruned.inc(numberIn(message, 'count')),
    'database:retry': by(
      'code',
      'database_retries_total',
      'Transactions begun again, by the SQLSTATE that ended them.',
    ),
    'database:wait': (message) => waited.observe(numberIn(message, 'milliseconds') / 1000),
    'overload:refused': by(
      'reason',
      'overload_refused_total',
      'Requests refused at once (503) under overload.',
    ),
    'overload:untaken': by(
      'reason',
      'overload_untaken_answers_total',
      'Connections closed because the client did not take its answer: time, memory.',
    ),
  }
}

/** Begins to listen; the function that it returns ends that. */
export function watchEvents(registry: Registry): () => void {
  const taken = Object.entries(counters([registry])).map(
    ([event, take]) => [`resource-api:${event}`, (message: unknown) => take(message)] as const,
  )
  for (const [channel, take] of taken) subscribe(channel, take)
  return () => {
    for (const [channel, take] of taken) unsubscribe(channel, take)
  }
}
