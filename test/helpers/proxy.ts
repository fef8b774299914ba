/** A way to a server that can be cut, for tests of what happens then. */
import { createConnection, createServer, type Server, type Socket } from 'node:net'
import type { Owner } from './database.ts'

export type Mode = 'pass' | 'refuse' | 'hangUp' | 'silent'

/** Listens on a port of its own before `target`; `silent` swallows what comes, as a dead host does. */
export async function startProxy(t: Owner, target: string) {
  const to = new URL(target)
  const pairs = new Set<Socket>()
  let mode: Mode = 'pass'
  let count = 0
  let server: Server | undefined
  const accept = (near: Socket) => {
    count += 1
    near.on('error', () => undefined)
    if (mode === 'hangUp') return void near.end()
    pairs.add(near)
    const far = createConnection({ host: to.hostname, port: Number(to.port || 5432) })
    pairs.add(far)
    far.on('error', () => near.destroy())
    near.on('data', (data) => mode === 'silent' || far.write(data))
    far.on('data', (data) => mode === 'silent' || near.write(data))
    near.on('close', () => far.destroy())
    far.on('close', () => mode === 'silent' || near.destroy())
  }
  const listen = (port: number) =>
    new Promise<number>((resolve) => {
      server = createServer(accept).listen(port, '127.0.0.1', () => {
        const address = server?.address()
        resolve(typeof address === 'object' && address ? address.port : 0)
      })
    })
  const port = await listen(0)
  const stop = () => {
    for (const socket of pairs) socket.destroy()
    pairs.clear()
    server?.close()
    server = undefined
  }
  t.teardown(stop)
  to.hostname = '127.0.0.1'
  const url = new URL(to)
  url.port = String(port)
  return {
    url: url.href,
    connections: () => count,
    async set(next: Mode) {
      mode = next
      if (next === 'silent') return
      stop()
      if (next !== 'refuse') await listen(port)
    },
  }
}
