/** Redis, which the replicas of the service share: the connection, and the store that counts there. */
import { hash } from 'node:crypto'
import { identity } from '@resource-api/database'
import type { MaybePromise } from '@resource-api/database/concurrency'
import { Redis } from 'ioredis'
import { parseRedisUrl } from './redis-url.ts'
import { type Store, toCount, type Window } from './windows.ts'

/** Time that a request, or the test of a new connection, waits for Redis. `withTimeout` measures it in steps. */
const REQUEST_TIMEOUT_MS = 200
const TIMEOUT_STEPS = 4

/** The client reconnects in the background. It neither queues commands nor retries them: a failed one has a fallback. */
const CLIENT_OPTIONS = {
  connectTimeout: 500,
  // Of the commands with which the client itself opens the connection.
  commandTimeout: 500,
  disconnectTimeout: 100,
  retryStrategy: () => 500,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
}

/**
 * Adds to all windows or to none, by the clock of Redis. A key that holds another type, or does not expire, counts as 0.
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
const SCRIPT_SHA = hash('sha1', SCRIPT)

const PROBE: Window = { name: 'probe', key: '{probe}:probe', limit: 1_000_000_000, durationMs: 1_000 }

async function addInRedis(client: Redis, amount: number, windows: readonly Window[]) {
  const keys = windows.map(({ key }) => `limits:${key}`)
  const bounds = windows.flatMap(({ limit, durationMs }) => [limit, durationMs])
  const reply = await client.evalsha(SCRIPT_SHA, keys.length, ...keys, amount, ...bounds)
  const [refused, ...counts] = Array.isArray(reply) ? reply.map(Number) : []
  if (counts.length !== 2 * windows.length || counts.some(Number.isNaN)) {
    throw new Error('Redis returned an unexpected reply')
  }
  return windows.map((window, i) =>
    toCount(window, counts[2 * i] ?? 0, counts[2 * i + 1] ?? 0, refused === 1),
  )
}

/** Selects the database of the URL: ioredis goes on with database 0 if the server does not have it. */
async function selectDatabase(client: Redis, db: number): Promise<void> {
  if (db === 0) return
  await client.select(db).catch((error: Error) => {
    throw error.name === 'ReplyError' ? new Error(`Redis has no database ${db}`) : error
  })
}

/** Loads the script, and tests a write: a replica, or a server whose memory is full, accepts everything else. */
const prepare = (client: Redis, db: number) =>
  Promise.all([selectDatabase(client, db), client.script('LOAD', SCRIPT), addInRedis(client, 1, [PROBE])])

/** Returns the reason to log. A Redis error starts with its code; the rest may repeat the command, with a password. */
const getReason = ({ name, message }: Error): string =>
  name === 'ReplyError' ? (message.split(' ')[0] ?? '') : message

/**
 * Returns the result of `work`, or rejects after REQUEST_TIMEOUT_MS. If the event loop was blocked, only one of the steps
 * passes in that time, so that responses which have already arrived are still read.
 */
const withTimeout = <T>(work: Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    let stepsLeft = TIMEOUT_STEPS
    const timer = setInterval(() => {
      stepsLeft -= 1
      if (stepsLeft === 0) reject(new Error(`No response within ${REQUEST_TIMEOUT_MS} ms`))
    }, REQUEST_TIMEOUT_MS / TIMEOUT_STEPS)
    work.finally(() => clearInterval(timer)).then(resolve, reject)
  })

export type RedisConnection = Awaited<ReturnType<typeof connectRedis>>

/**
 * Connects to Redis. Waits for the first attempt, so that the first requests use it.
 * @param namespace separates the keys of services that share a Redis server
 */
export async function connectRedis(url: string, namespace?: string) {
  const keyPrefix = [identity.name, namespace, ''].filter((part) => part !== undefined).join(':')
  const address = parseRedisUrl(url)
  const client = new Redis({ ...CLIENT_OPTIONS, ...address, keyPrefix })
  /** Called with the reason when Redis becomes unavailable, and with undefined when it is available again. */
  const listeners: ((failure: string | undefined) => void)[] = []
  let failure: string | undefined = ''
  let lastError: Error | undefined

  const setFailure = (reason: string | undefined) => {
    if (failure && reason !== undefined) return
    failure = reason
    for (const listener of listeners) listener(reason)
  }
  const drop = (error: Error) => {
    setFailure(getReason(error))
    client.disconnect(true)
  }
  client.on('error', (error: Error) => {
    lastError = error
  })
  client.on('close', () => setFailure(lastError ? getReason(lastError) : 'The connection ended'))
  client.on('ready', () => {
    lastError = undefined
    withTimeout(prepare(client, address.db)).then(() => setFailure(undefined), drop)
  })
  await new Promise((resolve) => listeners.push(resolve))

  return {
    /** Returns the result of the commands, or of the fallback while Redis is unavailable. */
    run<T>(commands: (client: Redis) => Promise<T>, fallback: () => MaybePromise<T>): MaybePromise<T> {
      if (failure !== undefined) return fallback()
      return withTimeout(commands(client)).catch((error) => {
        drop(error)
        return fallback()
      })
    },
    /** Calls the listener at each change, and now if Redis is unavailable. */
    onChange(listener: (failure: string | undefined) => void): void {
      listeners.push(listener)
      if (failure !== undefined) listener(failure)
    },
    close(): void {
      listeners.length = 0
      client.disconnect()
    },
  }
}

/** Creates the store that counts in Redis and, while that is unavailable, in the fallback. */
export const createRedisStore = (redis: RedisConnection, fallback: Store): Store => ({
  add: (amount, windows) =>
    redis.run(
      (client) => addInRedis(client, amount, windows),
      () => fallback.add(amount, windows),
    ),
})
