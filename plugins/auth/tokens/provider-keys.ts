/**
 * The public keys of an identity provider. One fetch serves all requests that wait for it, and neither a bad token nor
 * a provider that fails makes each request fetch again.
 */
import { createLocalJWKSet, errors, type JWTVerifyGetKey } from 'jose'

export interface ProviderKeysOptions {
  url: string
  /** Milliseconds since the epoch. */
  now: () => number
}

const FETCH_TIMEOUT_MS = 3_000
const MAX_AGE_MS = 600_000
/** Time between a fetch and the next one that a token with an unknown `kid` may cause, also if the first one failed. */
const REFETCH_INTERVAL_MS = 60_000
/** Time for which a failure is the answer to all requests that need keys. */
export const RETRY_INTERVAL_MS = 5_000

/** The provider did not answer in time, or could not be reached. */
export class ProviderUnreachableError extends Error {
  override readonly name = 'ProviderUnreachableError'
}

async function readResponse(url: string): Promise<{ status: number; text: string }> {
  try {
    const response = await fetch(url, {
      // A redirection could lead away from HTTPS.
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
  if (status !== 200) throw new Error(`The key set was answered with status ${status}`)
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
    if (!keySet) throw new Error('A fetch that succeeds has a key set')
    return keySet
  }

  return async (header, token) => {
    const known = await getFreshKeySet()
    try {
      return await known(header, token)
    } catch (error) {
      const mayReload = pending !== undefined || now() - attemptedAt >= REFETCH_INTERVAL_MS
      if (!(error instanceof errors.JWKSNoMatchingKey) || !mayReload) throw error
      await reload()
      return (await getFreshKeySet())(header, token)
    }
  }
}
