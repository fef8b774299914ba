/** `events tail`: prints the changes of resources while they happen. */
import { styleText } from 'node:util'
import { Command } from '@commander-js/extra-typings'
import { checkHeader, readServerOptions, type ServerOptions, urlOption } from '@resource-api/cli'
import { createClient, type ResourceEvent } from '@resource-api/client'
import { identity } from '@resource-api/database'
import { getBuiltInName } from '@resource-api/database/application'
import { getReason } from './collection-rows.ts'

/** Most types are not longer; a longer one makes the column wider from then on. */
const MIN_TYPE_WIDTH = 'user-profiles.updated'.length
const ID_WIDTH = 36

const COLORS = { created: 'green', updated: 'yellow', deleted: 'red' } as const

const isChange = (text: string | undefined): text is keyof typeof COLORS =>
  text !== undefined && Object.hasOwn(COLORS, text)

/** Returns a function that formats an event as one line of aligned columns. */
function createFormatter(hasColors: boolean): (event: ResourceEvent) => string {
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

interface Options extends ServerOptions {
  type?: string
  from?: string
  json?: true
}

async function tail({ type, from, json, ...server }: Options): Promise<void> {
  const { baseUrl, apiKey } = readServerOptions(server)
  const { stdout } = process
  const format = createFormatter(stdout.isTTY && stdout.hasColors())
  const stopped = new AbortController()
  const stop = () => stopped.abort()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop)
  const stream = createClient({ baseUrl, apiKey }).events.stream(
    { type: type?.split(','), cursor: from === undefined ? undefined : checkHeader('--from', from) },
    {
      path: `/api/v1/${getBuiltInName('events')}`,
      signal: stopped.signal,
      onReconnect: (error, delayMs) =>
        console.error(
          `No connection to ${baseUrl}: ${getReason(error)}. Connecting again in ${(delayMs / 1000).toFixed(1)} s`,
        ),
    },
  )
  try {
    for await (const { event } of stream) console.log(json ? JSON.stringify(event) : format(event))
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, stop)
  }
  if (stream.cursor !== undefined) console.error(`Stopped. To go on from here: --from ${stream.cursor}`)
}

export const eventsTail = new Command('tail')
  .description('Print the changes of resources while they happen')
  .addOption(urlOption)
  .option('--key <key>', `An API key (default: ${identity.keyVariable})`)
  .option('--type <list>', 'Only these types, separated by commas, such as users.created or user-profiles.*')
  .option('--from <cursor>', 'Start after this cursor instead of now')
  .option('--json', 'Print each event as a line of JSON')
  .addHelpText(
    'after',
    `
Prints a line for each event: its time, its type, the id of the resource, the user who changed it, and the
names of the changed fields. A change without a user has the kind of its credential instead, such as 'system' for the
command line. Ctrl-C ends the command with exit code 0, and prints the cursor with which it can go on.

An argument is visible to every user in 'ps': set ${identity.keyVariable} instead of --key. The key needs the scope
events:read, and the read scope of the collections whose events are printed.

If the connection is lost, the command says so on standard error, and goes on after the last event. It fails if the
server refuses the key, or if events after the cursor were removed.`,
  )
  .action(tail)
