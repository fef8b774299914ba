/** Runs the load generator: wrk if it is installed, else autocannon; random requests over kept-alive connections. */
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { isInstalled, LOAD_CORE, runProcess } from './processes.ts'
import type { Call } from './targets/target.ts'

export interface LoadResult {
  requests: number
  seconds: number
  /** Responses with status 400 or higher. */
  refused: number
  /** Requests without a response. */
  broken: number
  /** Milliseconds. */
  p50: number
  p99: number
}

export const generators: readonly string[] = ['wrk', 'autocannon']

/** wrk uses less CPU and leaves more of the core to PostgreSQL. */
export const defaultGenerator = isInstalled('wrk') ? 'wrk' : 'autocannon'

const toPath = (name: string) => fileURLToPath(new URL(name, import.meta.url))

/** Numbers reserved for one load; each request contains another number. */
const NUMBERS_PER_LOAD = 1_000_000
let nextNumber = 100_000_000

/** Returns the text of an HTTP/1.1 request. */
function formatRequest({ method, path, headers = {}, body }: Call, host: string): string {
  const fields = {
    Host: host,
    ...headers,
    ...(body !== undefined && {
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(body),
    }),
  }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body ?? ''}`
}

interface LoadOptions {
  /** By default this machine. */
  host?: string
  port: number
  seconds: number
  connections: number
  generator: string
  /** The file in which the generator finds the requests. */
  file: string
  /** The cores of the generator; by default LOAD_CORE. */
  core?: string
}

export async function runLoad(calls: readonly Call[], options: LoadOptions): Promise<LoadResult> {
  const { port, seconds, connections, generator, file, core = LOAD_CORE } = options
  const host = `${options.host ?? '127.0.0.1'}:${port}`
  writeFileSync(file, calls.map((call) => formatRequest(call, host)).join('\0'))
  const firstNumber = String(nextNumber)
  nextNumber += NUMBERS_PER_LOAD
  const url = `http://${host}`
  const requests = [file, firstNumber]
  const wrk = [
    'wrk',
    '-t1',
    `-c${connections}`,
    `-d${seconds}s`,
    '-s',
    toPath('load.lua'),
    url,
    '--',
    ...requests,
  ]
  const autocannon = [process.execPath, toPath('load.js'), url, `${connections}`, `${seconds}`, ...requests]
  const args = generator === 'wrk' ? wrk : autocannon
  const output = await runProcess({ core, args })
  return JSON.parse(output.trim().split('\n').at(-1) ?? '')
}
