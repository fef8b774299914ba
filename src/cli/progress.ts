/** Shows the progress of a long command. */

export interface Progress {
  add(count: number): void
  stop(): void
}

const LINE_INTERVAL_MS = 2_000
const TERMINAL_INTERVAL_MS = 100
/** Moves the cursor to the start of the line and clears the line. */
const CLEAR_LINE = '\r\x1b[K'

/**
 * Shows progress on standard error if that is a terminal, in one line that is cleared at the end; otherwise prints a line
 * every two seconds.
 * @param what the counted things, in the plural
 * @param isQuiet prints no lines without a terminal: for commands whose output scripts read
 */
export function createProgress(what: string, total: number, isQuiet = false): Progress {
  const { stderr } = process
  const interval = stderr.isTTY ? TERMINAL_INTERVAL_MS : LINE_INTERVAL_MS
  let done = 0
  let printedAt = performance.now()
  const print = () => {
    const text = `${done.toLocaleString('en')} of ${total.toLocaleString('en')} ${what}`
    if (stderr.isTTY) stderr.write(CLEAR_LINE + text)
    else if (!isQuiet) console.log(text)
  }
  return {
    add(count) {
      done += count
      if (performance.now() - printedAt < interval) return
      printedAt = performance.now()
      print()
    },
    stop() {
      if (stderr.isTTY) stderr.write(CLEAR_LINE)
    },
  }
}
