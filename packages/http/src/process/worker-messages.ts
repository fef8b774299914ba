/** Questions and answers between the primary process and its worker processes. */

/** The other process: a worker of the cluster, or `process` in a worker. */
export interface Peer {
  send?(message: object, callback?: (error: Error | null) => void): boolean
  on(event: 'message', listener: (message: unknown) => void): unknown
  off(event: 'message', listener: (message: unknown) => void): unknown
}

/** Returns a field of a message; undefined if it has none. */
export const readField = (message: unknown, name: string): unknown =>
  message instanceof Object ? Reflect.get(message, name) : undefined

let lastId = 0

/** Asks the other process. @throws Error without an answer in time */
export function ask(peer: Peer, question: string, timeoutMs: number): Promise<unknown> {
  lastId += 1
  const id = lastId
  return new Promise((resolve, reject) => {
    const end = (settle: () => void) => {
      clearTimeout(timer)
      peer.off('message', onMessage)
      settle()
    }
    const timer = setTimeout(() => end(() => reject(new Error(`No answer in time: ${question}`))), timeoutMs)
    const onMessage = (message: unknown) => {
      if (readField(message, 'answered') === id) end(() => resolve(readField(message, 'answer')))
    }
    peer.on('message', onMessage)
    peer.send?.({ question, id }, (error) => error && end(() => reject(error)))
  })
}

/** Answers a question of the other process, which waits for a limited time only: a failure is not sent. */
export function answer(peer: Peer, question: string, read: () => Promise<unknown>): void {
  peer.on('message', (message) => {
    if (readField(message, 'question') !== question) return
    const id = readField(message, 'id')
    read().then(
      (value) => peer.send?.({ answered: id, answer: value }, () => {}),
      () => {},
    )
  })
}
