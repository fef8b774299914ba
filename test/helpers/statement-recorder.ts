/** A way to PostgreSQL that tells what a client sends over it. */
import { connect, createServer } from 'node:net'
import type { Owner } from './database.ts'
import { listen } from './listen.ts'
import { createMessageReader, createStatementReader } from './postgres-messages.ts'

export interface RecordedTraffic {
  /** Pieces of data: what is sent together in one. */
  packets: number
  /** The texts of what was carried out, in their order. */
  statements: string[]
  /** How often the client had to wait for the server: a Sync, or a simple Query. */
  roundTrips: number
  /** Statements that the server had not seen on that connection. */
  prepared: number
}

const nothing = (): RecordedTraffic => ({ packets: 0, statements: [], roundTrips: 0, prepared: 0 })

/** Listens on a port of its own before `target`. */
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
    /** What was sent since the last time. */
    take(): RecordedTraffic {
      const taken = sent
      sent = nothing()
      return taken
    },
  }
}
