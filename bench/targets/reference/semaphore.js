/** Limits the number of concurrent queries: without a limit, postgres.js slows down under load. */

/** @param {number} limit */
export function createSemaphore(limit) {
  let free = limit
  const waiting = []
  const release = () => {
    const next = waiting.shift()
    if (next) next()
    else free += 1
  }
  return (work) => {
    if (free === 0) return new Promise((resolve) => waiting.push(resolve)).then(work).finally(release)
    free -= 1
    return work().finally(release)
  }
}
