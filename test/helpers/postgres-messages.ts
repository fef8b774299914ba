/** What a client of PostgreSQL sends, message by message, whatever pieces its bytes come in. */

export interface Message {
  /** Its letter; empty for the first message of a connection, which has none. */
  type: string
  /** What follows letter and length. */
  body: Buffer
}

/** @returns what takes the next bytes, and gives the messages that are whole with them */
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

/** The texts that a message begins with, each ended by a zero. */
const textsOf = ({ body }: Message): string[] => body.toString('utf8').split('\0')

/** @returns what takes a message, and gives the text of the statement that it has carried out, if it has one carried out */
export function createStatementReader(): (message: Message) => string | undefined {
  // A statement is prepared once for each connection, and known by its name from then on.
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
