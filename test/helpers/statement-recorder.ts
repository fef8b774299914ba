/** A proxy before PostgreSQL that records the statements and packets of a client. */
import { connect, createServer } from 'node:net'
import type { Owner } from './database.ts'
import { listen } from './listen.ts'
import { createMessageReader, createStatementReader } from './postgres-messages.ts'

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
