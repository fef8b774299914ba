/** A load balancer that forwards requests to replicas whose `/readyz` is 200, without retries. */
import { Agent, createServer, get, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { Owner } from './database.ts'
import { listen } from './listen.ts'

/** Time between two health checks of a replica. */
const INTERVAL_MS = 100
/** Shorter than the service's keep-alive timeout of 5 s, so that no request is sent on a connection that is being closed. */
const IDLE_TIMEOUT_MS = 3_000

interface Replica {
  url: string
  ready: boolean
  agent: Agent
  asking: NodeJS.Timeout
}

/** Hop-by-hop headers. */
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
  /** Descriptions of the requests that could not be forwarded. */
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
    /** Starts health checks of a replica and resolves when it is ready. */
    add: (url: string) =>
      new Promise<void>((resolve) => {
        const ask = async () => {
          replica.ready = await isReady(url)
          if (replica.ready) resolve()
        }
        const agent = new Agent({ keepAlive: true, timeout: IDLE_TIMEOUT_MS })
        const replica: Replica = { url, ready: false, agent, asking: setInterval(ask, INTERVAL_MS) }
        replicas.set(url, replica)
      }),
    remove,
  }
}
