/** Reads the OpenAPI document of version 1: of a running server, or of the application in a folder. */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { UsageError } from '../usage-error.ts'
import type { Document } from './write-client.ts'

const TIMEOUT_MS = 15_000
/** That of an application takes seconds, more on a busy machine. */
const OWN_TIMEOUT_MS = 120_000
const MAX_BYTES = 32 * 1024 * 1024

/** Reads a body. @throws Error if it is too large */
async function readText(response: Response): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.length
    if (size > MAX_BYTES) throw new Error(`it has more than ${MAX_BYTES / 1024 / 1024} MiB`)
    text += decoder.decode(chunk, { stream: true })
  }
  return text + decoder.decode()
}

/** Returns the reason of an error of `fetch`, which has its cause apart. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.name === 'TimeoutError') return `no response within ${TIMEOUT_MS / 1000} s`
  const { cause } = error
  if (!(cause instanceof Error)) return error.message
  return cause.message || String(Object(cause).code)
}

async function fetchDocument(url: URL): Promise<string> {
  try {
    const response = await fetch(url, {
      headers: { Accept: 'application/json' },
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    if (!response.ok) throw new Error(`the response has the status ${response.status}`)
    return await readText(response)
  } catch (error) {
    throw new Error(`Cannot read ${url}: ${describe(error)}`)
  }
}

/** Runs the command `openapi` of the application, which needs neither a server nor a database. */
function renderDocument(root: string): string {
  const program = join(root, 'src/cli.ts')
  if (!existsSync(program))
    throw new UsageError(
      `There is no ${program}: run the command in the folder of an application, or name a server with --url`,
    )
  const { status, stdout, error } = spawnSync(
    process.execPath,
    ['--import=tsx', program, 'openapi', '--version', '1'],
    {
      cwd: root,
      encoding: 'utf8',
      maxBuffer: MAX_BYTES,
      timeout: OWN_TIMEOUT_MS,
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  if (status !== 0)
    throw new Error(`The application has written no document${error ? `: ${error.message}` : ''}`)
  return stdout
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null

const isDocument = (value: unknown): value is Document =>
  isObject(value) &&
  typeof value.openapi === 'string' &&
  value.openapi.startsWith('3.') &&
  isObject(value.paths) &&
  Object.keys(value.paths).some((path) => path.startsWith('/api/v1/'))

/** Parses a document. @throws Error if it is another one, or refers to other files, which would be read */
function parse(text: string, source: string): Document {
  let hasForeignReference = false
  let value: unknown
  try {
    value = JSON.parse(text, (name, member: unknown) => {
      if (name === '$ref' && typeof member === 'string' && !member.startsWith('#')) hasForeignReference = true
      return member
    })
  } catch {
    throw new Error(`${source} is not JSON`)
  }
  if (!isDocument(value)) throw new Error(`${source} is not the OpenAPI document of version 1 of such an API`)
  if (hasForeignReference) throw new Error(`${source} refers to other documents`)
  return value
}

/**
 * @param url that of a server; undefined: of the application in the folder `root`
 * @throws UsageError if there is no application, or the URL is none
 */
export async function readDocument(root: string, url: string | undefined): Promise<Document> {
  if (url === undefined) return parse(renderDocument(root), 'What the application has written')
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    throw new UsageError(`--url: "${url}" is not the URL of a server, such as http://localhost:3000`)
  const address = new URL('openapi/v1.json', url.endsWith('/') ? url : `${url}/`)
  return parse(await fetchDocument(address), String(address))
}
