/** Shows the progress of a long command on a terminal. */

const INTERVAL_MS = 100
/** Moves the cursor to the start of the line and clears the line. */
const CLEAR_LINE = '\r\x1b[K'

/**
 * Calls `work` with a function that counts what is done. If standard error is a terminal, a line of it shows the count,
 * and is cleared at the end.
 * @param what the counted things, in the plural
 */
export async function withProgress<T>(
  what: string,
  total: number,
  work: (add: (count: number) => void) => Promise<T>,
): Promise<T> {
  const { stderr } = process
  let done = 0
  let printedAt = performance.now()
  const add = (count: number) => {
    done += count
    if (!stderr.isTTY || performance.now() - printedAt < INTERVAL_MS) return
    printedAt = performance.now()
    stderr.write(`${CLEAR_LINE}${done.toLocaleString('en')} of ${total.toLocaleString('en')} ${what}`)
  }
  try {
    return await work(add)
  } finally {
    if (stderr.isTTY) stderr.write(CLEAR_LINE)
  }
}
