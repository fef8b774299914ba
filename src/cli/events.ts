/** `events tail`: prints the changes of resources while they happen. */
import { styleText } from 'node:util'
import { identity } from '../../lib/identity.ts'
import { readClientKey } from '../config.ts'
import { type Command, type Flags, getRequired, UsageError, type Values } from './command.ts'
import { readEventStream } from './event-stream.ts'

/** The members of an event that are printed. */
interface Event {
  type: string
  resource_id: string
  previous: Record<string, unknown> | null
  actor_id: string | null
  credential: string
  created_at: string
}

/** Most types are not longer; a longer one makes the column wider from then on. */
const MIN_TYPE_WIDTH = 'user-profiles.updated'.length
const ID_WIDTH = 36

const COLORS = { created: 'green', updated: 'yellow', deleted: 'red' } as const

const isChange = (text: string | undefined): text is keyof typeof COLORS =>
  text !== undefined && Object.hasOwn(COLORS, text)

/** Returns a function that formats an event as one line of aligned columns. */
function createFormatter(hasColors: boolean): (event: Event) => string {
  let typeWidth = MIN_TYPE_WIDTH
  return ({ type, resource_id, previous, actor_id, credential, created_at }) => {
    typeWidth = Math.max(typeWidth, type.length)
    const time = created_at.replace(/\.\d+Z$/, 'Z')
    const paddedType = type.padEnd(typeWidth)
    // Changes by the command line, for example, have no user.
    const actor = (actor_id ?? credential).padEnd(ID_WIDTH)
    const others = `${resource_id}  ${actor}  ${Object.keys(previous ?? {}).join(', ')}`.trimEnd()
    if (!hasColors) return `${time}  ${paddedType}  ${others}`
    const change = type.split('.').at(-1)
    const coloredType = isChange(change) ? styleText(COLORS[change], paddedType) : paddedType
    return `${styleText('gray', time)}  ${coloredType}  ${others}`
  }
}

/** Returns a text that is sent as a header. @throws UsageError */
function checkHeader(name: string, text: string): string {
  if (/^[\x21-\x7e]+$/.test(text)) return text
  throw new UsageError(`${name} must consist of visible ASCII characters`)
}

/** Returns the address of the stream. @throws UsageError */
function getStreamUrl(values: Values): URL {
  const address = getRequired(values, 'url')
  const url = URL.canParse(address) ? new URL(address) : undefined
  // fetch rejects credentials in an address; they are not repeated in the message.
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') {
    throw new UsageError('--url must be an http or https address without credentials')
  }
  url.pathname = `${url.pathname.replace(/\/$/, '')}/api/v1/events`
  if (values.type !== undefined) url.searchParams.set('type', values.type)
  return url
}

async function tail(values: Values, flags: Flags): Promise<void> {
  const url = getStreamUrl(values)
  const key = values.key ?? readClientKey()
  if (key === undefined) throw new UsageError(`--key or ${identity.keyVariable} is required`)
  const headers = { 'X-API-Key': checkHeader('The API key', key) }
  let last = values.from === undefined ? undefined : checkHeader('--from', values.from)
  const { stdout } = process
  const format = createFormatter(stdout.isTTY && stdout.hasColors())
  const stopped = new AbortController()
  const stop = () => stopped.abort()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop)
  const messages = readEventStream({
    url,
    headers,
    cursor: last,
    signal: stopped.signal,
    onLoss: (reason, delayMs) =>
      console.error(`No connection: ${reason}. Connecting again in ${(delayMs / 1000).toFixed(1)} s`),
  })
  try {
    for await (const { cursor, data } of messages) {
      last = cursor ?? last
      if (data === '') continue
      const event: Event = JSON.parse(data)
      console.log(flags.has('json') ? JSON.stringify(event) : format(event))
    }
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, stop)
  }
  if (last !== undefined) console.error(`Stopped. To go on from here: --from ${last}`)
}

export const eventsTail: Command = {
  summary: 'Print the changes of resources while they happen',
  details: `Prints a line for each event: its time, its type, the id of the resource, the user who changed it, and the
names of the changed fields. A change without a user has the kind of its credential instead, such as 'system' for the
command line. Ctrl-C ends the command with exit code 0, and prints the cursor with which it can go on.

An argument is visible to every user in 'ps': set ${identity.keyVariable} instead of --key. The key needs the scope
events:read, and the read scope of the collections whose events are printed.

If the connection is lost, the command says so on standard error, and goes on after the last event. It fails if the
server refuses the key, or if events after the cursor were removed.`,
  options: {
    url: { value: 'url', help: 'The address of the server', default: 'http://127.0.0.1:3000' },
    key: { value: 'key', help: `An API key (default: ${identity.keyVariable})` },
    type: {
      value: 'list',
      help: 'Only these types, separated by commas, such as orders.created or products.*',
    },
    from: { value: 'cursor', help: 'Start after this cursor instead of now' },
    json: { help: 'Print each event as a line of JSON' },
  },
  run: tail,
}
