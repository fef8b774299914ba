/**
 * Fetches and caches the public keys of an identity provider. All requests that wait share one fetch, and neither an
 * invalid token nor a failing provider makes each request fetch again.
 */
import { createLocalJWKSet, errors, type JWTVerifyGetKey } from 'jose'

interface ProviderKeysOptions {
  url: string
  /** Milliseconds since the epoch. */
  now: () => number
}

const FETCH_TIMEOUT_MS = 3_000
const MAX_AGE_MS = 600_000
/** Minimum time between a fetch, successful or not, and one caused by a token with an unknown `kid`. */
const REFETCH_INTERVAL_MS = 60_000
/** Time for which a failure is returned to all requests that need keys. */
export const RETRY_INTERVAL_MS = 5_000

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

  const getFreshKeySet = async () => {
    if (keySet && now() - fetchedAt < MAX_AGE_MS) return keySet
    if (failure && !pending && now() - attemptedAt < RETRY_INTERVAL_MS) throw failure.error
    await reload()
    if (!keySet) throw new Error('The fetch returned no key set')
    return keySet
  }

  return async (header, token) => {
    const findKey = await getFreshKeySet()
    try {
      return await findKey(header, token)
    } catch (error) {
      const mayReload = pending !== undefined || now() - attemptedAt >= REFETCH_INTERVAL_MS
      if (!(error instanceof errors.JWKSNoMatchingKey) || !mayReload) throw error
      await reload()
      return (await getFreshKeySet())(header, token)
    }
  }
}
