/** A way to PostgreSQL on which commits arrive and their answers do not. */
import { createConnection, createServer, type Socket } from 'node:net'
import type { Owner } from './database.ts'

/** `answered`: the server has said that it committed; `sent`: it may be at it still. */
export type Loss = 'none' | 'answered' | 'sent'

const PARSE = 0x50
const BIND = 0x42
const QUERY = 0x51

/** The texts that end with a zero in a message, from its body on. */
const textsOf = (message: Buffer, count: number) => message.toString('utf8', 5).split('\0', count)

/** Tells from a client's bytes when it commits, whatever pieces they come in. */
function createWatch() {
  let rest = Buffer.alloc(0)
  let isStarted = false
  const commits = new Set<string>()

  const isCommit = (message: Buffer): boolean => {
    const [first = '', second = ''] = textsOf(message, 2)
    if (message[0] === QUERY) return /^commit\b/i.test(first)
    // A statement is prepared once for each connection, and known by its name from then on.
    if (message[0] === PARSE && /^commit\b/i.test(second)) commits.add(first)
    return message[0] === BIND && commits.has(second)
  }

  return (data: Buffer): boolean => {
    rest = Buffer.concat([rest, data])
    let found = false
    for (;;) {
      // The first message of a connection has no type.
      const start = isStarted ? 1 : 0
      if (rest.length < start + 4) return found
      const end = start + rest.readUInt32BE(start)
      if (rest.length < end) return found
      if (isStarted) found = isCommit(rest.subarray(0, end)) || found
      isStarted = true
      rest = rest.subarray(end)
    }
  }
}

/** Listens on a port of its own before `target`, and cuts connections after their commits as `lose` says. */
export async function startLossy(t: Owner, target: string, lose: () => Loss) {
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
  const port = await new Promise<number>((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      resolve(typeof address === 'object' && address ? address.port : 0)
    })
  })
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const url = new URL(to)
  url.hostname = '127.0.0.1'
  url.port = String(port)
  return { url: url.href, lost: () => lost }
}
