/** The store that all replicas share. While it is unavailable, counts are kept in this process. */
import type { FastifyBaseLogger } from 'fastify'
import { storeChannel } from './channels.ts'
import type { RedisStore } from './redis-store.ts'
import type { Store } from './windows.ts'
import { withTimeout } from './with-timeout.ts'

/** Time that a request waits for the shared store. */
const REQUEST_TIMEOUT_MS = 200
/** Time between attempts to reconnect, which run in the background. */
const RECONNECT_INTERVAL_MS = 500

/** Which store counts: the shared one or this process's own. */
export type StoreState = 'shared' | 'own'

interface SharedStoreOptions {
  open(): Promise<RedisStore>
  /** Counts while the shared store is unavailable. */
  fallback: Store
  log: Pick<FastifyBaseLogger, 'warn' | 'info'>
  /** Called at each change. In state 'own', flags that other processes set are not seen. */
  onChange?: ((state: StoreState) => void) | undefined
}

/** Returns the reason to log. A Redis error starts with its code; the rest may repeat the command, with a password. */
export const getReason = (error: unknown): string => {
  if (!(error instanceof Error)) return 'unknown'
  return error.name === 'ReplyError' ? (error.message.split(' ')[0] ?? '') : error.message
}

/** Creates the store. Waits for the first attempt to connect, so that the first requests use the shared counts. */
export async function createSharedStore({ open, fallback, log, onChange }: SharedStoreOptions) {
  let shared: RedisStore | undefined
  let isClosed = false
  let timer: NodeJS.Timeout | undefined

  const reportState = (state: StoreState, reason?: string) => {
    onChange?.(state)
    if (storeChannel.hasSubscribers) storeChannel.publish({ state })
    if (state === 'shared') log.info('the store of the rate limits is available again')
    else log.warn({ reason }, 'the store of the rate limits is unavailable: this process counts by itself')
  }

  const scheduleReconnect = () => {
    timer = setTimeout(async () => {
      if (await connect()) reportState('shared')
    }, RECONNECT_INTERVAL_MS).unref()
  }

  const drop = (failed: RedisStore, error: unknown) => {
    if (isClosed || shared !== failed) return
    shared = undefined
    failed.close()
    reportState('own', getReason(error))
    scheduleReconnect()
  }

  /** @returns whether it connected; otherwise the next attempt is scheduled */
  const connect = async (onFailure?: (error: unknown) => void): Promise<boolean> => {
    try {
      const opened = await open()
      if (isClosed) {
        opened.close()
        return false
      }
      shared = opened
      opened.onEnd((error) => drop(opened, error))
      return true
    } catch (error) {
      if (isClosed) return false
      onFailure?.(error)
      scheduleReconnect()
      return false
    }
  }

  const setFlag = async (key: string, durationMs: number) => {
    const store = shared
    if (!store) return
    try {
      await withTimeout(REQUEST_TIMEOUT_MS, store.setFlag(key, durationMs))
    } catch (error) {
      drop(store, error)
    }
  }

  const add: Store['add'] = (amount, windows, flag) => {
    const store = shared
    if (!store) return fallback.add(amount, windows)
    return withTimeout(REQUEST_TIMEOUT_MS, store.add(amount, windows, flag)).catch((error) => {
      drop(store, error)
      return fallback.add(amount, windows)
    })
  }

  await connect((error) => reportState('own', getReason(error)))
  return {
    add,
    setFlag,
    close() {
      isClosed = true
      clearTimeout(timer)
      shared?.close()
    },
  }
}
