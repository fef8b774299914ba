/** Loaded into a server before its modules: prints the event loop delay on SIGUSR2 and resets it. */
import { monitorEventLoopDelay } from 'node:perf_hooks'

/** Milliseconds between the turns that are timed: what comes sooner is not late. */
const RESOLUTION = 1

const loop = monitorEventLoopDelay({ resolution: RESOLUTION })
loop.enable()

process.on('SIGUSR2', () => {
  const [mean, p50, p99, max] = [loop.mean, loop.percentile(50), loop.percentile(99), loop.max].map(
    (nanoseconds) => nanoseconds / 1e6 - RESOLUTION,
  )
  loop.reset()
  console.log(JSON.stringify({ loop: { mean, p50, p99, max } }))
})
