/**
 * The metrics of one app: a registry of its own, no globals, in the two formats that monitoring reads. prom-client goes
 * on as @prometheus-io/client, which wants Node.js 22.
 */
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'

/**
 * prom-client counts every handle and request of the process at each scrape, which takes long where there are ten
 * thousand sockets, and calls the sums `_total`, as only counters may be.
 */
const UNWANTED = ['handles', 'requests', 'resources'].flatMap((what) => [
  `nodejs_active_${what}`,
  `nodejs_active_${what}_total`,
])

/** With what Node.js tells of itself: event loop, memory, garbage collection, CPU. */
export function createRegistry(release: string): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  for (const name of UNWANTED) registry.removeSingleMetric(name)
  new Gauge({
    name: 'resource_api_info',
    help: 'Always 1; its label is the running version of the service.',
    labelNames: ['version'],
    registers: [registry],
  }).set({ version: release }, 1)
  return registry
}

export const PROMETHEUS = Registry.PROMETHEUS_CONTENT_TYPE
export const OPENMETRICS = Registry.OPENMETRICS_CONTENT_TYPE

/**
 * The same text as OpenMetrics, where a counter's family has no `_total` and the end is marked. By hand: asked for
 * OpenMetrics, prom-client 15.1.3 renames its counters for good, and the next scrape in the other format is wrong.
 */
export function toOpenMetrics(text: string): string {
  const families = text.replace(
    /^# HELP (\w+)_total (.*)\n# TYPE \1_total counter$/gm,
    '# HELP $1 $2\n# TYPE $1 counter',
  )
  return `${families.replace(/\n{2,}/g, '\n')}# EOF\n`
}
