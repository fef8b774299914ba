/** Records or holds the statements that a client sends to the database. */
import { connect, createServer } from 'node:net'
import { createDatabase } from '../../database/src/client/database.ts'
import type { Database, DatabaseClient, Param, Queryable } from '../../database/src/client/index.ts'
import type { Owner } from './database.ts'
import { listen } from './network.ts'

/**
 * Returns a database that calls a function before each statement, `begin` and `commit` included, and waits for a promise
 * of it.
 */
export function intercept(
  { $client }: Database,
  before: (text: string, params: readonly Param[]) => unknown,
): Database {
  const on = (connection: Queryable): Queryable => ({
    run: (text, params = [], options) => {
      const pause = before(text, params)
      const run = () => connection.run(text, params, options)
      return pause instanceof Promise ? pause.then(run) : run()
    },
  })
  const transaction: DatabaseClient['transaction'] = async (work, limits) => {
    const pause = before('begin', [])
    if (pause instanceof Promise) await pause
    return $client.transaction(async (tx) => {
      const result = await work({ ...tx, ...on(tx) })
      await tx.runHooks()
      const end = before('commit', [])
      if (end instanceof Promise) await end
      return result
    }, limits)
  }
  return createDatabase({ ...$client, ...on($client), transaction })
}

/** Records the statements that run on a database. The embedded one has no wire to record. */
export function overhear(opened: Database) {
  let statements: string[] = []
  const database = intercept(opened, (text) => void statements.push(text))
  const take = (): RecordedTraffic => {
    const taken = statements
    statements = []
    return { packets: taken.length, statements: taken, roundTrips: taken.length, prepared: 0 }
  }
  return { database, take }
}

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

export interface RecordedTraffic {
  /** Chunks of data that the client sent. */
  packets: number
  /** The executed statements, in order. */
  statements: string[]
  /** Sync and simple Query messages, each of which waits for the server. */
  roundTrips: number
  /** Statements that were prepared on the connection. */
  prepared: number
}

const nothing = (): RecordedTraffic => ({ packets: 0, statements: [], roundTrips: 0, prepared: 0 })

/** Starts a recording proxy on a free port that forwards to `target`. */
export async function startStatementRecorder(t: Owner, target: string) {
  const to = new URL(target)
  let sent = nothing()
  const server = createServer({ noDelay: true }, (near) => {
    const far = connect({ port: Number(to.port || 5432), host: to.hostname, noDelay: true })
    const read = createMessageReader()
    const statementOf = createStatementReader()
    near.on('error', () => far.destroy())
    far.on('error', () => near.destroy())
    near.on('data', (data) => {
      sent.packets += 1
      for (const message of read(data)) {
        if (message.type === 'S' || message.type === 'Q') sent.roundTrips += 1
        if (message.type === 'P') sent.prepared += 1
        const text = statementOf(message)
        if (text !== undefined) sent.statements.push(text)
      }
    })
    near.pipe(far).pipe(near)
  })
  t.teardown(() => server.close())
  const url = new URL(target)
  url.hostname = '127.0.0.1'
  url.port = String(await listen(server))
  return {
    url: url.href,
    /** Returns the traffic since the last call. */
    take(): RecordedTraffic {
      const taken = sent
      sent = nothing()
      return taken
    },
  }
}
