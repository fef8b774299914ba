/** A bound on the queries in flight, and nothing else: without it postgres.js slows down under load (FACTS). */

/** @param {number} size */
export function createGate(size) {
  let free = size
  const waiting = []
  const leave = () => {
    const next = waiting.shift()
    if (next) next()
    else free += 1
  }
  return (work) => {
    if (free === 0) return new Promise((resolve) => waiting.push(resolve)).then(work).finally(leave)
    free -= 1
    return work().finally(leave)
  }
}
