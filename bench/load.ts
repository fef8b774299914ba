/** The load: wrk where there is one, else autocannon; requests from a file, at random, over kept connections. */
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { finish, has, LOAD_CORE } from './processes.ts'
import type { Call } from './targets/target.ts'

export interface Load {
  requests: number
  seconds: number
  /** Replies of 400 and more. */
  refused: number
  /** Requests without a reply. */
  broken: number
  /** Milliseconds. */
  p50: number
  p99: number
}

export const generators: readonly string[] = ['wrk', 'autocannon']

/** wrk leaves more of its core to PostgreSQL. */
export const bestGenerator = has('wrk') ? 'wrk' : 'autocannon'

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url))

/** The number in a request is of nine digits, and of no two requests the same: each load has a million of its own. */
let nextNumber = 100_000_000

/** A request as it stands on the wire. */
function wire({ method, path, headers = {}, body }: Call, host: string): string {
  const all = {
    Host: host,
    ...headers,
    ...(body !== undefined && {
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(body),
    }),
  }
  const fields = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${method} ${path} HTTP/1.1\r\n${fields.join('')}\r\n${body ?? ''}`
}

/** @param file where the requests go on their way to the generator */
export async function load(
  calls: readonly Call[],
  options: { port: number; seconds: number; connections: number; generator: string; file: string },
): Promise<Load> {
  const { port, seconds, connections, generator, file } = options
  const host = `127.0.0.1:${port}`
  writeFileSync(file, calls.map((call) => wire(call, host)).join('\0'))
  const number = String(nextNumber)
  nextNumber += 1_000_000
  const [url, kept, time] = [`http://${host}`, String(connections), String(seconds)]
  const wrk = ['wrk', '-t1', `-c${kept}`, `-d${time}s`, '-s', here('load.lua'), url, '--', file, number]
  const autocannon = [process.execPath, here('load.js'), url, kept, time, file, number]
  const args = generator === 'wrk' ? wrk : autocannon
  const out = await finish({ core: LOAD_CORE, args })
  return JSON.parse(out.trim().split('\n').at(-1) ?? '')
}
