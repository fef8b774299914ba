/** Work that is too long to be done twice in one turn of the event loop. */

/**
 * @returns a function that runs work one at a time, each in a turn of its own, so that other connections are served
 * in between: 20 bodies of 1 MiB that arrive together would otherwise hold them up for the sum of their times
 */
export function createTurns() {
  const waiting: (() => void)[] = []
  const runNext = () => {
    const work = waiting.shift()
    // An immediate that is set by an immediate runs in the next turn.
    if (waiting.length > 0) setImmediate(runNext)
    work?.()
  }
  return (work: () => void): void => {
    if (waiting.push(work) === 1) setImmediate(runNext)
  }
}
