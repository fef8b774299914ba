/** Measures the event loop delay of a server into which it is imported; prints and resets it on SIGUSR2. */
import { monitorEventLoopDelay } from 'node:perf_hooks'

const RESOLUTION_MS = 1

const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
histogram.enable()

process.on('SIGUSR2', () => {
  const values = [histogram.mean, histogram.percentile(50), histogram.percentile(99), histogram.max]
  // The histogram contains the timer interval; what exceeds it is the delay.
  const [mean, p50, p99, max] = values.map((nanoseconds) => nanoseconds / 1e6 - RESOLUTION_MS)
  histogram.reset()
  console.log(JSON.stringify({ loop: { mean, p50, p99, max } }))
})
