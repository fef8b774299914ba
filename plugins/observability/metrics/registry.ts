/**
 * The metrics registry of one app, without globals, and its two text formats. prom-client continues as
 * @prometheus-io/client, which requires Node.js 22.
 */
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { identity } from '../../../lib/identity.ts'

/**
 * Default metrics that are removed: prom-client iterates over all handles of the process at each scrape, which is slow
 * with ten thousand sockets, and gives gauges the suffix `_total`, which is reserved for counters.
 */
const REMOVED_METRICS = ['handles', 'requests', 'resources'].flatMap((kind) => [
  `nodejs_active_${kind}`,
  `nodejs_active_${kind}_total`,
])

/** Creates a registry with the default metrics of Node.js: event loop, memory, garbage collection, CPU. */
export function createRegistry(release: string): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  for (const name of REMOVED_METRICS) registry.removeSingleMetric(name)
  new Gauge({
    name: `${identity.metrics}_info`,
    help: 'Always 1; the label is the version of the service.',
    labelNames: ['version'],
    registers: [registry],
  }).set({ version: release }, 1)
  return registry
}

export const PROMETHEUS = Registry.PROMETHEUS_CONTENT_TYPE
export const OPENMETRICS = Registry.OPENMETRICS_CONTENT_TYPE

/**
 * Converts the Prometheus format to OpenMetrics: removes `_total` from the family names of counters and adds the end
 * marker. prom-client 15.1.3 is not used for this: it renames its counters permanently, which breaks the next scrape in
 * the Prometheus format.
 */
export function toOpenMetrics(text: string): string {
  const families = text.replace(
    /^# HELP (\w+)_total (.*)\n# TYPE \1_total counter$/gm,
    '# HELP $1 $2\n# TYPE $1 counter',
  )
  return `${families.replace(/\n{2,}/g, '\n')}# EOF\n`
}
