/** Counts in Redis, which all replicas of the service share; while Redis is unavailable, in the memory of this process. */
import type { Redis } from 'ioredis'
import { connectRedis } from './redis.ts'
import { type Amount, type Store, toCount, type Window } from './windows.ts'

/**
 * Adds to all windows of a request or to none, in one round trip and by the clock of Redis. A key that holds another
 * type, or that does not expire, counts as 0 and is overwritten.
 * KEYS: the windows. ARGV: the amount, then the limit and the duration of each window.
 * Returns 1 if refused, else 0; then the count and the remaining time of each window.
 */
const SCRIPT = `
local amount = tonumber(ARGV[1])
local found, refused = {}, 0
for i, key in ipairs(KEYS) do
  local stored = redis.pcall('GET', key)
  local used = type(stored) == 'string' and tonumber(stored) or 0
  local left = redis.call('PTTL', key)
  local new = left <= 0
  if new then used, left = 0, tonumber(ARGV[2 * i + 1]) end
  if amount > 0 and used >= tonumber(ARGV[2 * i]) then refused = 1 end
  found[i] = { used = used, left = left, new = new }
end
local reply = { refused }
for i, key in ipairs(KEYS) do
  local each = found[i]
  if refused == 0 and amount ~= 0 and each.used + amount >= 0 then
    each.used = each.used + amount
    if each.new then redis.call('SET', key, each.used, 'PX', each.left)
    else redis.call('SET', key, each.used, 'KEEPTTL') end
  end
  reply[2 * i], reply[2 * i + 1] = each.used, each.left
end
return reply`

const PROBE: Window = { key: '{probe}:probe', limit: 1_000_000_000, durationMs: 1_000 }

/** Creates the functions that load the script on a client, and that count with it. */
export function createRedisCounter() {
  let script = ''

  const add = async (client: Redis, amount: Amount, windows: readonly Window[]) => {
    const keys = windows.map(({ key }) => `limits:${key}`)
    const bounds = windows.flatMap(({ limit, durationMs }) => [limit, durationMs])
    const reply = await client.evalsha(script, keys.length, ...keys, amount, ...bounds)
    const [refused, ...counts] = Array.isArray(reply) ? reply.map(Number) : []
    if (counts.length !== 2 * windows.length || counts.some(Number.isNaN)) {
      throw new Error('Redis returned an unexpected reply')
    }
    return windows.map((window, i) =>
      toCount(window, counts[2 * i] ?? 0, counts[2 * i + 1] ?? 0, refused === 1),
    )
  }

  return {
    add,
    /** Loads the script, and tests a write: a replica, or a server whose memory is full, accepts everything else. */
    prepare: async (client: Redis) => {
      script = String(await client.script('LOAD', SCRIPT))
      await add(client, 1, [PROBE])
    },
  }
}

/**
 * Connects to Redis, and creates the store that counts there.
 * @param namespace separates the counts of services that share a Redis server
 * @param fallback counts while Redis is unavailable
 */
export async function openRedisStore(url: string, namespace: string | undefined, fallback: Store) {
  const { add, prepare } = createRedisCounter()
  const redis = await connectRedis({ url, namespace, prepare })
  const store: Store = {
    add: (amount, windows) =>
      redis.run(
        (client) => add(client, amount, windows),
        () => fallback.add(amount, windows),
      ),
  }
  return { redis, store }
}
