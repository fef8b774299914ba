/** Metrics over all worker processes: each can be asked for them, and the primary process adds them up. */
import cluster, { type Worker } from 'node:cluster'
import { AggregatorRegistry, type MetricObjectWithValues, type MetricValue, type Registry } from 'prom-client'
import { answer, ask } from '../../process/worker-messages.ts'

const ALL = 'all metrics'
const OWN = 'own metrics'
/** Longer than `database_up` takes. */
const OWN_TIMEOUT_MS = 1_500
const ALL_TIMEOUT_MS = 3_000

type Metrics = MetricObjectWithValues<MetricValue<string>>[]

/** Metrics come from another process of the same release. */
const isMetrics = (metrics: unknown): metrics is Metrics => Array.isArray(metrics)

/**
 * In the primary process: adds up what the worker processes have counted whenever one of them is asked. What those that
 * have ended had counted at the last scrape stays in the sums: a counter that falls would count as one that began again.
 * @param serving the worker processes that answer
 */
export function addUpMetrics(serving: ReadonlySet<Worker>): void {
  const latest = new Map<Worker, Metrics>()
  let ended: Metrics = []

  const addUp = async () => {
    await Promise.all(
      [...serving].map(async (worker) => {
        const metrics = await ask(worker, OWN, OWN_TIMEOUT_MS).catch(() => undefined)
        if (isMetrics(metrics)) latest.set(worker, metrics)
      }),
    )
    for (const [worker, metrics] of latest) {
      if (serving.has(worker)) continue
      latest.delete(worker)
      const counted = metrics.filter(({ type }) => String(type) !== 'gauge')
      const sums: unknown = AggregatorRegistry.aggregate([ended, counted]).getMetricsAsArray()
      if (isMetrics(sums)) ended = sums
    }
    return AggregatorRegistry.aggregate([...latest.values(), ended]).metrics()
  }
  cluster.on('fork', (worker) => answer(worker, ALL, addUp))
}

/** In a worker process: gives its metrics to the primary process. @returns a function that reads those of all */
export function shareMetrics(registry: Registry): () => Promise<string> {
  answer(process, OWN, () => registry.getMetricsAsJSON())
  return async () => String(await ask(process, ALL, ALL_TIMEOUT_MS))
}
