/** Shows the progress of a long command: a bar on a terminal, otherwise a line every two seconds. */
import { Presets, SingleBar } from 'cli-progress'

export interface Progress {
  add(count: number): void
  stop(): void
}

const LINE_INTERVAL_MS = 2_000

const formatCount = (value: number) => value.toLocaleString('en')

function createBar(what: string, total: number): Progress {
  const bar = new SingleBar(
    { format: `{bar} {percentage}% | {value} of {total} ${what} | {eta_formatted} left`, etaBuffer: 50 },
    Presets.shades_classic,
  )
  bar.start(total, 0)
  return { add: (count) => bar.increment(count), stop: () => bar.stop() }
}

function createLines(what: string, total: number): Progress {
  let done = 0
  let lastLineAt = performance.now()
  return {
    add(count) {
      done += count
      if (performance.now() - lastLineAt < LINE_INTERVAL_MS) return
      lastLineAt = performance.now()
      console.log(`${formatCount(done)} of ${formatCount(total)} ${what}`)
    },
    stop() {},
  }
}

/** Shows a bar on standard error if that is a terminal, otherwise nothing: for commands whose output scripts read. */
export const createQuietProgress = (what: string, total: number): Progress =>
  process.stderr.isTTY ? createBar(what, total) : { add() {}, stop() {} }

/** @param what the counted things, in the plural */
export const createProgress = (what: string, total: number): Progress =>
  process.stdout.isTTY ? createBar(what, total) : createLines(what, total)
