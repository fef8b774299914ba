/** Parses the messages that a client sends to PostgreSQL. */

export interface Message {
  /** The type byte; empty for the first message of a connection, which has none. */
  type: string
  /** The bytes after type and length. */
  body: Buffer
}

/** Returns a function that takes bytes and returns the messages that they complete. */
export function createMessageReader(): (data: Buffer) => Message[] {
  let rest = Buffer.alloc(0)
  let isStarted = false

  const next = (): Message | undefined => {
    const start = isStarted ? 1 : 0
    if (rest.length < start + 4) return undefined
    const end = start + rest.readUInt32BE(start)
    if (rest.length < end) return undefined
    const message = { type: rest.toString('latin1', 0, start), body: rest.subarray(start + 4, end) }
    rest = rest.subarray(end)
    isStarted = true
    return message
  }

  return (data) => {
    rest = Buffer.concat([rest, data])
    const found: Message[] = []
    for (let message = next(); message; message = next()) found.push(message)
    return found
  }
}

/** Returns the null-terminated strings at the start of a message. */
const textsOf = ({ body }: Message): string[] => body.toString('utf8').split('\0')

/** Returns a function that takes a message and returns the text of the statement that it executes, if any. */
export function createStatementReader(): (message: Message) => string | undefined {
  // A statement is prepared once per connection and executed by its name.
  const prepared = new Map<string, string>()
  const bound = new Map<string, string>()
  return (message) => {
    const [first = '', second = ''] = textsOf(message)
    if (message.type === 'P') prepared.set(first, second)
    if (message.type === 'B') bound.set(first, prepared.get(second) ?? '')
    if (message.type === 'E') return bound.get(first)
    return message.type === 'Q' ? first : undefined
  }
}
