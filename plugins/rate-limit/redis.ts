/** Counts in Redis, which all replicas share. */
import { Redis } from 'ioredis'
import { type Amount, type Count, countOf, type Flag, type Store, type Window } from './types.ts'
import { within } from './within.ts'

const PREFIX = 'resource-api:limits:'
/** Milliseconds from the first packet to a script that has run. */
const OPENING = 1_000

/**
 * All the windows of a request in one round trip, in all or in none, on the clock of Redis. What else stands under such
 * a key, or has no end, counts as nothing, and is written over.
 * ARGV: the amount, then for each key its limit and its life. One key more is a flag, for which the reply has how long it lasts.
 */
const SCRIPT = `
local amount = tonumber(ARGV[1])
local found, refused, windows = {}, 0, (#ARGV - 1) / 2
for i = 1, windows do
  local key = KEYS[i]
  local kept = redis.pcall('GET', key)
  local used = type(kept) == 'string' and tonumber(kept) or 0
  local left = redis.call('PTTL', key)
  local new = left <= 0
  if new then used, left = 0, tonumber(ARGV[2 * i + 1]) end
  if amount > 0 and used >= tonumber(ARGV[2 * i]) then refused = 1 end
  found[i] = { used = used, left = left, new = new }
end
local reply = { refused }
for i = 1, windows do
  local key, each = KEYS[i], found[i]
  if refused == 0 and amount ~= 0 and each.used + amount >= 0 then
    each.used = each.used + amount
    if each.new then redis.call('SET', key, each.used, 'PX', each.left)
    else redis.call('SET', key, each.used, 'KEEPTTL') end
  end
  reply[2 * i], reply[2 * i + 1] = each.used, each.left
end
if #KEYS > windows then reply[2 * windows + 2] = redis.call('PTTL', KEYS[windows + 1]) end
return reply`

/** Nothing waits in the client, and nothing is sent twice: who decides what happens then is `shared.ts`. */
const OPTIONS = {
  lazyConnect: true,
  retryStrategy: () => null,
  connectTimeout: 500,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
}

const PROBE: Window = { key: '{probe}:probe', limit: 1_000_000_000, life: 1_000 }

/** A connection to a store: once it has ended, or failed, it is not used again. */
export interface Remote extends Required<Store> {
  add(...asked: Parameters<Store['add']>): Promise<readonly Count[]>
  onEnd(listener: (error: Error) => void): void
  close(): void
}

function read(reply: unknown, windows: readonly Window[], flag: Flag | undefined) {
  const numbers = Array.isArray(reply) ? reply.map(Number) : []
  const [refused, ...rest] = numbers
  if (rest.length !== 2 * windows.length + (flag ? 1 : 0) || numbers.some(Number.isNaN)) {
    throw new Error('Redis answered something else than counts')
  }
  const left = rest[2 * windows.length] ?? 0
  if (left > 0) flag?.onSet(left)
  return windows.map((window, i) => countOf(window, rest[2 * i] ?? 0, rest[2 * i + 1] ?? 0, refused === 1))
}

/** @throws Error if it cannot be reached, does not let us in, or cannot count right now */
export async function openRedis(url: string): Promise<Remote> {
  const client = new Redis(url, OPTIONS)
  const ended: { error: Error } = { error: new Error('The connection ended') }
  client.on('error', (error: Error) => {
    ended.error = error
  })

  const open = async (): Promise<Remote> => {
    await client.connect()
    const script = String(await client.script('LOAD', SCRIPT))
    const add = async (amount: Amount, windows: readonly Window[], flag?: Flag) => {
      const keys = windows.map(({ key }) => PREFIX + key)
      if (flag) keys.push(PREFIX + flag.key)
      const bounds = windows.flatMap(({ limit, life }) => [limit, life])
      return read(await client.evalsha(script, keys.length, ...keys, amount, ...bounds), windows, flag)
    }
    // Writes as well: a replica, or a server whose memory is full, would take all else.
    await add(1, [PROBE])
    return {
      add,
      setFlag: async (key, life) => void (await client.set(PREFIX + key, 1, 'PX', life)),
      onEnd: (listener) => void client.once('end', () => listener(ended.error)),
      close: () => client.disconnect(),
    }
  }

  try {
    return await within(OPENING, open())
  } catch (error) {
    client.disconnect()
    // The client itself says no more than that the connection is closed.
    throw error instanceof Error && error.message === 'Connection is closed.' ? ended.error : error
  }
}
