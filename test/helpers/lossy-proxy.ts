/** A way to PostgreSQL on which commits arrive and their answers do not. */
import { createConnection, createServer, type Socket } from 'node:net'
import type { Owner } from './database.ts'
import { listen } from './listen.ts'
import { createMessageReader, createStatementReader } from './postgres-messages.ts'

/** `answered`: the server has said that it committed; `sent`: it may be at it still. */
export type Loss = 'none' | 'answered' | 'sent'

/** Tells from a client's bytes when it commits. */
function createWatch() {
  const read = createMessageReader()
  const statementOf = createStatementReader()
  return (data: Buffer): boolean =>
    // All of it is read, whatever comes first: what is prepared here is named later.
    read(data)
      .map(statementOf)
      .some((text) => text !== undefined && /^commit\b/i.test(text))
}

/** Listens on a port of its own before `target`, and cuts connections after their commits as `lose` says. */
export async function startLossyProxy(t: Owner, target: string, lose: () => Loss) {
  const to = new URL(target)
  const sockets = new Set<Socket>()
  let lost = 0

  const accept = (near: Socket) => {
    const far = createConnection({ host: to.hostname, port: Number(to.port || 5432), noDelay: true })
    const isCommit = createWatch()
    let loss: Loss = 'none'
    const cut = () => {
      lost += 1
      near.destroy()
    }
    for (const socket of [near, far]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
    }
    near.on('data', (data) => {
      if (isCommit(data)) loss = lose()
      far.write(data)
      if (loss === 'sent') cut()
    })
    far.on('data', (data) => (loss === 'none' ? near.write(data) : loss === 'answered' && cut()))
    // What was sent arrives, though nobody waits for the answer.
    near.on('close', () => far.end())
    far.on('close', () => near.destroy())
  }

  const server = createServer({ noDelay: true }, accept)
  const port = await listen(server)
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const url = new URL(to)
  url.hostname = '127.0.0.1'
  url.port = String(port)
  return { url: url.href, lost: () => lost }
}
