/** How far a long command has come: a bar on a terminal, a line now and then elsewhere. */
import { Presets, SingleBar } from 'cli-progress'

export interface Progress {
  add(count: number): void
  stop(): void
}

const EVERY = 2_000

const say = (value: number) => value.toLocaleString('en')

function bar(what: string, total: number): Progress {
  const shown = new SingleBar(
    { format: `{bar} {percentage}% | {value} of {total} ${what} | {eta_formatted} left`, etaBuffer: 50 },
    Presets.shades_classic,
  )
  shown.start(total, 0)
  return { add: (count) => shown.increment(count), stop: () => shown.stop() }
}

function lines(what: string, total: number): Progress {
  let done = 0
  let last = performance.now()
  return {
    add(count) {
      done += count
      if (performance.now() - last < EVERY) return
      last = performance.now()
      console.log(`${say(done)} of ${say(total)} ${what}`)
    },
    stop() {},
  }
}

/** @param what is counted, in the plural */
export const createProgress = (what: string, total: number): Progress =>
  process.stdout.isTTY ? bar(what, total) : lines(what, total)
