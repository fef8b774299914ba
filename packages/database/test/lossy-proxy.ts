/** A proxy before PostgreSQL that closes connections after a commit, so that its reply is lost. */
import { createConnection, createServer, type Socket } from 'node:net'
import type { Owner } from '../../testing/helpers/database.ts'
import { listen } from '../../testing/helpers/network.ts'
import { createMessageReader, createStatementReader } from '../../testing/helpers/statements.ts'

/** `answered`: closes after the reply to the commit; `sent`: closes after the commit was sent. */
export type Loss = 'none' | 'answered' | 'sent'

/** Starts the proxy on a free port; `lose` decides for each commit when its connection is closed. */
export async function startLossyProxy(t: Owner, target: string, lose: () => Loss) {
  const to = new URL(target)
  const sockets = new Set<Socket>()
  let lost = 0

  const accept = (near: Socket) => {
    const far = createConnection({ host: to.hostname, port: Number(to.port || 5432), noDelay: true })
    const read = createMessageReader()
    const readStatement = createStatementReader()
    // Reads every message, because a statement that is prepared here is executed by its name later.
    const hasCommit = (data: Buffer) =>
      read(data)
        .map(readStatement)
        .some((text) => /^commit\b/i.test(text ?? ''))
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
      if (hasCommit(data)) loss = lose()
      far.write(data)
      if (loss === 'sent') cut()
    })
    far.on('data', (data) => (loss === 'none' ? near.write(data) : loss === 'answered' && cut()))
    // The server still gets what was sent.
    near.on('close', () => far.end())
    far.on('close', () => near.destroy())
  }

  const server = createServer({ noDelay: true }, accept)
  const port = await listen(server)
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { href } = Object.assign(new URL(to), { hostname: '127.0.0.1', port: String(port) })
  return { url: href, lost: () => lost }
}
