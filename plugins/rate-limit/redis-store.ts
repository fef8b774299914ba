/** Counts in Redis, which all replicas of the service share. */
import { Redis } from 'ioredis'
import { identity } from '../../lib/identity.ts'
import { type Amount, type Count, type Flag, type Store, toCount, type Window } from './windows.ts'
import { withTimeout } from './with-timeout.ts'

const PREFIX = `${identity.name}:limits:`
/** Time for the connection, for loading the script, and for its first run. */
const OPEN_TIMEOUT_MS = 1_000

/**
 * Adds to all windows of a request or to none, in one round trip and by the clock of Redis. A key that holds another
 * type, or that does not expire, counts as 0 and is overwritten.
 * KEYS: the windows, then optionally a flag. ARGV: the amount, then the limit and the duration of each window.
 * Returns 1 if refused, else 0; the count and the remaining time of each window; the remaining time of the flag.
 */
const SCRIPT = `
local amount = tonumber(ARGV[1])
local found, refused, windows = {}, 0, (#ARGV - 1) / 2
for i = 1, windows do
  local key = KEYS[i]
  local stored = redis.pcall('GET', key)
  local used = type(stored) == 'string' and tonumber(stored) or 0
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

/** The client neither queues commands nor retries them: `shared-store.ts` falls back to memory and reconnects. */
const CLIENT_OPTIONS = {
  lazyConnect: true,
  retryStrategy: () => null,
  connectTimeout: 500,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
}

const PROBE: Window = { key: '{probe}:probe', limit: 1_000_000_000, durationMs: 1_000 }

/** A store with a connection. After the connection has ended or a command has failed, it is not used again. */
export interface RedisStore extends Required<Store> {
  add(...parameters: Parameters<Store['add']>): Promise<readonly Count[]>
  onEnd(listener: (error: Error) => void): void
  close(): void
}

function readReply(reply: unknown, windows: readonly Window[], flag: Flag | undefined) {
  const numbers = Array.isArray(reply) ? reply.map(Number) : []
  const [refused, ...counts] = numbers
  if (counts.length !== 2 * windows.length + (flag ? 1 : 0) || numbers.some(Number.isNaN)) {
    throw new Error('Redis returned an unexpected reply')
  }
  const flagMs = counts[2 * windows.length] ?? 0
  if (flagMs > 0) flag?.onSet(flagMs)
  return windows.map((window, i) =>
    toCount(window, counts[2 * i] ?? 0, counts[2 * i + 1] ?? 0, refused === 1),
  )
}

/**
 * Opens a connection to Redis.
 * @throws Error if Redis cannot be reached, rejects the credentials, or cannot write
 */
export async function openRedisStore(url: string, namespace?: string): Promise<RedisStore> {
  const prefix = namespace === undefined ? PREFIX : `${PREFIX}${namespace}:`
  const client = new Redis(url, CLIENT_OPTIONS)
  const last = { error: new Error('The connection ended') }
  client.on('error', (error: Error) => {
    last.error = error
  })

  const open = async (): Promise<RedisStore> => {
    await client.connect()
    const script = String(await client.script('LOAD', SCRIPT))
    const add = async (amount: Amount, windows: readonly Window[], flag?: Flag) => {
      const keys = windows.map(({ key }) => prefix + key)
      if (flag) keys.push(prefix + flag.key)
      const bounds = windows.flatMap(({ limit, durationMs }) => [limit, durationMs])
      return readReply(await client.evalsha(script, keys.length, ...keys, amount, ...bounds), windows, flag)
    }
    // Tests a write: a replica, or a server whose memory is full, accepts everything else.
    await add(1, [PROBE])
    return {
      add,
      setFlag: async (key, durationMs) => void (await client.set(prefix + key, 1, 'PX', durationMs)),
      onEnd: (listener) => void client.once('end', () => listener(last.error)),
      close: () => client.disconnect(),
    }
  }

  try {
    return await withTimeout(OPEN_TIMEOUT_MS, open())
  } catch (error) {
    client.disconnect()
    // ioredis rejects with this text alone; its error event has the cause.
    throw error instanceof Error && error.message === 'Connection is closed.' ? last.error : error
  }
}
