/**
 * Fetches and caches the public keys of an identity provider. All requests that wait share one fetch, and neither an
 * invalid token nor a failing provider makes each request fetch again.
 */
import { createLocalJWKSet, errors, type JWTVerifyGetKey } from 'jose'
import { LRUCache } from 'lru-cache'

interface ProviderKeysOptions {
  url: string
  /** Milliseconds since the epoch. */
  now: () => number
}

const FETCH_TIMEOUT_MS = 3_000
const MAX_AGE_MS = 600_000
/** Minimum time between two fetches for the same unknown `kid`. */
const REFETCH_INTERVAL_MS = 60_000
/** Time for which a failure is returned to all requests that need keys. */
export const RETRY_INTERVAL_MS = 5_000
/** Fetches for unknown kids at once; after that, one every `RETRY_INTERVAL_MS`. Anyone can send tokens with new kids. */
const MAX_REFETCHES = 5
/** More than are fetched for within `REFETCH_INTERVAL_MS`. */
const MAX_MISSING_KIDS = 100

/** The provider did not answer in time, or could not be reached. */
export class ProviderUnreachableError extends Error {
  override readonly name = 'ProviderUnreachableError'
}

async function readResponse(url: string): Promise<{ status: number; text: string }> {
  try {
    const response = await fetch(url, {
      // A redirect could lead to an address without HTTPS.
      redirect: 'manual',
      signal: AbortSignal.timeout(FETCH_TIMEOUT_MS),
      headers: { accept: 'application/json, application/jwk-set+json' },
    })
    return { status: response.status, text: await response.text() }
  } catch (cause) {
    throw new ProviderUnreachableError('The identity provider cannot be reached', { cause })
  }
}

async function fetchKeySet(url: string) {
  const { status, text } = await readResponse(url)
  if (status !== 200) throw new Error(`The request for the key set failed with status ${status}`)
  return createLocalJWKSet(JSON.parse(text))
}

/**
 * Returns a function that finds the key of a token.
 * @throws ProviderUnreachableError
 * @throws errors.JWKSNoMatchingKey for a `kid` that the provider does not publish
 */
export function createProviderKeys({ url, now }: ProviderKeysOptions): JWTVerifyGetKey {
  let keySet: Awaited<ReturnType<typeof fetchKeySet>> | undefined
  let fetchedAt = 0
  /** When the last fetch ended, successful or not. */
  let attemptedAt = 0
  let failure: { error: unknown } | undefined
  /** When a fetch for each unknown `kid` ended. */
  const missing = new LRUCache<string, number>({ max: MAX_MISSING_KIDS })
  /** The end of the time that the fetches for unknown kids have used up, `RETRY_INTERVAL_MS` each. */
  let refetchesUntil = 0
  let pending: Promise<void> | undefined

  const load = async (): Promise<void> => {
    try {
      keySet = await fetchKeySet(url)
      fetchedAt = now()
      failure = undefined
    } catch (error) {
      failure = { error }
      throw error
    } finally {
      attemptedAt = now()
      pending = undefined
    }
  }

  const reload = (): Promise<void> => {
    pending ??= load()
    return pending
  }

  const throwRecentFailure = () => {
    if (failure && !pending && now() - attemptedAt < RETRY_INTERVAL_MS) throw failure.error
  }

  const getFreshKeySet = async () => {
    if (keySet && now() - fetchedAt < MAX_AGE_MS) return keySet
    throwRecentFailure()
    await reload()
    if (!keySet) throw new Error('The fetch returned no key set')
    return keySet
  }

  /** Returns whether a token may cause a fetch: its key may be a new one of the provider. */
  const mayRefetch = (kid: string): boolean => {
    const time = now()
    if (time - (missing.get(kid) ?? Number.NEGATIVE_INFINITY) < REFETCH_INTERVAL_MS) return false
    throwRecentFailure()
    const from = Math.max(refetchesUntil, time)
    if (from - time > (MAX_REFETCHES - 1) * RETRY_INTERVAL_MS) return false
    refetchesUntil = from + RETRY_INTERVAL_MS
    return true
  }

  return async (header, token) => {
    const { kid = '' } = header
    const findKey = async () => (await getFreshKeySet())(header, token)
    try {
      return await findKey()
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error
      const isShared = pending !== undefined
      if (!isShared && !mayRefetch(kid)) throw error
      await reload()
      // A fetch that had begun before may have missed the key: the next request with it fetches again.
      if (!isShared) missing.set(kid, now())
      return findKey()
    }
  }
}
