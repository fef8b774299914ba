/** A balancer as they stand before replicas: asks each for `/readyz`, sends to those that are ready, repeats nothing. */
import { Agent, createServer, get, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { Owner } from './database.ts'
import { listen } from './listen.ts'

/** Milliseconds between two questions to one replica. */
const INTERVAL = 100
/** Less than the five seconds after which the service ends an idle connection: who waits as long as it sends into its end. */
const IDLE = 3_000

interface Replica {
  url: string
  ready: boolean
  agent: Agent
  asking: NodeJS.Timeout
}

/** Those that concern one connection alone. */
const HOP = new Set(['connection', 'keep-alive', 'transfer-encoding'])
const without = (headers: string[]): string[] =>
  headers.flatMap((name, i) =>
    i % 2 === 0 && !HOP.has(name.toLowerCase()) ? [name, headers[i + 1] ?? ''] : [],
  )

const isReady = (url: string) =>
  new Promise<boolean>((resolve) => {
    get(`${url}/readyz`, { agent: false, timeout: 1_000 }, (reply) => {
      reply.resume()
      resolve(reply.statusCode === 200)
    })
      .on('timeout', () => resolve(false))
      .on('error', () => resolve(false))
  })

export async function startBalancer(t: Owner) {
  const replicas = new Map<string, Replica>()
  /** What it could not pass on, in words. */
  const failures: string[] = []
  let turn = 0

  const forward = (from: IncomingMessage, to: ServerResponse) => {
    const ready = [...replicas.values()].filter((replica) => replica.ready)
    const replica = ready[turn++ % ready.length]
    const fail = (why: string) => {
      failures.push(`${from.method} ${from.url}: ${why}`)
      if (to.headersSent) to.destroy()
      else to.writeHead(502).end()
    }
    if (!replica) return fail('no replica is ready')
    const headers = without(from.rawHeaders)
    const passed = request(`${replica.url}${from.url}`, {
      method: from.method,
      headers,
      agent: replica.agent,
    })
    passed.on('error', (error) => fail(error.message))
    passed.on('response', (reply) => {
      to.writeHead(reply.statusCode ?? 502, without(reply.rawHeaders))
      reply.on('error', (error) => fail(error.message))
      reply.pipe(to)
    })
    from.pipe(passed)
  }

  const server = createServer(forward)
  const port = await listen(server)
  const remove = (url: string) => {
    clearInterval(replicas.get(url)?.asking)
    replicas.get(url)?.agent.destroy()
    replicas.delete(url)
  }
  t.teardown(() => {
    for (const url of [...replicas.keys()]) remove(url)
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${port}`,
    failures,
    /** Begins to ask a replica; resolves when it is ready. */
    add: (url: string) =>
      new Promise<void>((resolve) => {
        const ask = async () => {
          replica.ready = await isReady(url)
          if (replica.ready) resolve()
        }
        const agent = new Agent({ keepAlive: true, timeout: IDLE })
        const replica: Replica = { url, ready: false, agent, asking: setInterval(ask, INTERVAL) }
        replicas.set(url, replica)
      }),
    remove,
  }
}
