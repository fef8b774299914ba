/** The store of all replicas, or, while it is out of reach, this process's own; no request waits to find out. */
import type { FastifyBaseLogger } from 'fastify'
import { storeChannel } from './channels.ts'
import type { Remote } from './redis.ts'
import type { Store } from './types.ts'
import { within } from './within.ts'

/** Milliseconds that a request waits for it. */
const PATIENCE = 200
/** Milliseconds until it is tried anew, in the background. */
const PAUSE = 500

export interface SharedOptions {
  open(): Promise<Remote>
  /** Counts meanwhile. */
  own: Store
  log: Pick<FastifyBaseLogger, 'warn' | 'info'>
  /** Told when this process begins to count for itself, and when it ceases to: meanwhile it saw no flag. */
  onChange?: ((state: 'shared' | 'own') => void) | undefined
}

/** Redis says in its first word what is wrong; the rest may repeat what it was sent, a password among it. */
const reasonOf = (error: unknown): string => {
  if (!(error instanceof Error)) return 'unknown'
  return error.name === 'ReplyError' ? (error.message.split(' ')[0] ?? '') : error.message
}

/** Tries once before it returns, so that the first requests are counted in the right place. */
export async function createShared({ open, own, log, onChange }: SharedOptions) {
  let remote: Remote | undefined
  let isClosed = false
  let timer: NodeJS.Timeout | undefined

  const say = (state: 'shared' | 'own', reason?: string) => {
    onChange?.(state)
    if (storeChannel.hasSubscribers) storeChannel.publish({ state })
    if (state === 'shared') log.info('the store of the rate limits is in reach again')
    else log.warn({ reason }, 'the store of the rate limits is out of reach: this process counts for itself')
  }

  const later = () => {
    timer = setTimeout(async () => {
      if (await connect()) say('shared')
    }, PAUSE).unref()
  }

  const lose = (lost: Remote, error: unknown) => {
    if (isClosed || remote !== lost) return
    remote = undefined
    lost.close()
    say('own', reasonOf(error))
    later()
  }

  /** @returns whether it was there; if not, it is tried again */
  const connect = async (onFailure?: (error: unknown) => void): Promise<boolean> => {
    try {
      const found = await open()
      if (isClosed) {
        found.close()
        return false
      }
      remote = found
      found.onEnd((error) => lose(found, error))
      return true
    } catch (error) {
      if (isClosed) return false
      onFailure?.(error)
      later()
      return false
    }
  }

  const setFlag = async (key: string, life: number) => {
    const asked = remote
    if (!asked) return
    try {
      await within(PATIENCE, asked.setFlag(key, life))
    } catch (error) {
      lose(asked, error)
    }
  }

  const add: Store['add'] = (amount, windows, flag) => {
    const asked = remote
    if (!asked) return own.add(amount, windows)
    return within(PATIENCE, asked.add(amount, windows, flag)).catch((error) => {
      lose(asked, error)
      return own.add(amount, windows)
    })
  }

  await connect((error) => say('own', reasonOf(error)))
  return {
    add,
    setFlag,
    close() {
      isClosed = true
      clearTimeout(timer)
      remote?.close()
    },
  }
}
