/** The connection to Redis, which the replicas of the service share. While Redis is unavailable, each process does without. */
import { Redis } from 'ioredis'
import { identity } from '../../lib/identity.ts'
import type { MaybePromise } from '../../lib/maybe-promise.ts'

/** Time for the connection and for the first commands. */
const OPEN_TIMEOUT_MS = 1_000
/** Time that a request waits for Redis. */
const REQUEST_TIMEOUT_MS = 200
/** `withTimeout` measures the time in this many steps. */
const TIMEOUT_STEPS = 4
/** Time between attempts to reconnect, which run in the background. */
const RECONNECT_INTERVAL_MS = 500

/** The client neither queues commands nor retries them: a command that fails has a fallback. */
const CLIENT_OPTIONS = {
  lazyConnect: true,
  retryStrategy: () => null,
  connectTimeout: 500,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
}

/** Whether Redis is used, or each process keeps what it would keep there. */
type RedisState = 'shared' | 'own'

export interface RedisConnection {
  /** Returns the result of the commands, or of the fallback while Redis is unavailable. */
  run<T>(commands: (client: Redis) => Promise<T>, fallback: () => MaybePromise<T>): MaybePromise<T>
  /** Calls the listener at each change of the state, and now if Redis is unavailable. */
  onChange(listener: (state: RedisState, reason?: string) => void): void
  close(): void
}

/** Returns the reason to log. A Redis error starts with its code; the rest may repeat the command, with a password. */
export const getReason = (error: unknown): string => {
  if (!(error instanceof Error)) return 'unknown'
  return error.name === 'ReplyError' ? (error.message.split(' ')[0] ?? '') : error.message
}

/**
 * Returns the result of `work`, or rejects after `timeoutMs`. If the event loop was blocked, only one of the steps passes
 * in that time, so that responses which have already arrived are still read.
 */
const withTimeout = <T>(timeoutMs: number, work: Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    let stepsLeft = TIMEOUT_STEPS
    const timer = setInterval(() => {
      stepsLeft -= 1
      if (stepsLeft > 0) return
      clearInterval(timer)
      reject(new Error(`No response within ${timeoutMs} ms`))
    }, timeoutMs / TIMEOUT_STEPS)
    work.finally(() => clearInterval(timer)).then(resolve, reject)
  })

interface RedisOptions {
  url: string
  /** Separates the keys of services that share a Redis server. */
  namespace?: string | undefined
  /** The first commands of each client. */
  prepare(client: Redis): Promise<unknown>
}

/**
 * Opens a client.
 * @param onEnd called when the connection ends
 * @throws Error if Redis cannot be reached, rejects the credentials, or fails one of the first commands
 */
export async function openClient(
  { url, namespace, prepare }: RedisOptions,
  onEnd?: (client: Redis, error: Error) => void,
): Promise<Redis> {
  const keyPrefix = namespace === undefined ? `${identity.name}:` : `${identity.name}:${namespace}:`
  const client = new Redis(url, { ...CLIENT_OPTIONS, keyPrefix })
  let lastError = new Error('The connection ended')
  client.on('error', (error: Error) => {
    lastError = error
  })
  try {
    await withTimeout(
      OPEN_TIMEOUT_MS,
      client.connect().then(() => prepare(client)),
    )
  } catch (error) {
    client.disconnect()
    // ioredis rejects with this text alone; its error event has the cause.
    throw error instanceof Error && error.message === 'Connection is closed.' ? lastError : error
  }
  client.once('end', () => onEnd?.(client, lastError))
  return client
}

/**
 * Connects, and connects again whenever the connection ends or commands fail. Waits for the first attempt, so that the
 * first requests use Redis.
 */
export async function connectRedis(options: RedisOptions): Promise<RedisConnection> {
  const listeners: ((state: RedisState, reason?: string) => void)[] = []
  let current: Redis | undefined
  /** Why Redis is not used; undefined while it is. */
  let failure: string | undefined
  let isClosed = false
  let timer: NodeJS.Timeout | undefined

  const setFailure = (reason: string | undefined) => {
    failure = reason
    for (const listener of listeners) listener(reason === undefined ? 'shared' : 'own', reason)
  }

  const drop = (client: Redis, error: unknown) => {
    if (isClosed || current !== client) return
    current = undefined
    client.disconnect()
    setFailure(getReason(error))
    scheduleReconnect()
  }

  const connect = async () => {
    const client = await openClient(options, drop)
    if (isClosed) client.disconnect()
    else current = client
  }

  const scheduleReconnect = () => {
    timer = setTimeout(() => {
      connect().then(
        () => isClosed || setFailure(undefined),
        () => isClosed || scheduleReconnect(),
      )
    }, RECONNECT_INTERVAL_MS).unref()
  }

  try {
    await connect()
  } catch (error) {
    failure = getReason(error)
    scheduleReconnect()
  }

  return {
    run(commands, fallback) {
      const client = current
      if (!client) return fallback()
      return withTimeout(REQUEST_TIMEOUT_MS, commands(client)).catch((error) => {
        drop(client, error)
        return fallback()
      })
    },
    onChange(listener) {
      listeners.push(listener)
      if (failure !== undefined) listener('own', failure)
    },
    close() {
      isClosed = true
      clearTimeout(timer)
      current?.disconnect()
    },
  }
}
