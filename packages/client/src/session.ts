/** Keeps a user signed in: signs in, and refreshes tokens before and after they expire. */
import { AuthenticationError, ValidationError } from './errors.ts'
import type { Grant, Token } from './types.ts'

/** A user's email address and password. */
export interface SignIn {
  email: string
  password: string
}

/** The tokens of a session, as JSON. They give access to the account: store them like a password. */
export interface Tokens {
  accessToken: string
  refreshToken: string
  /** When to get the next access token, in milliseconds since 1970: shortly before this one expires. */
  renewAt: number
  sessionId: string
  userId: string
}

/** Where the tokens of a session are kept. */
export interface TokenStore {
  /** Returns the stored tokens, or null. */
  get(): Tokens | null | Promise<Tokens | null>
  /** Stores tokens, or removes them (null). */
  set(tokens: Tokens | null): void | Promise<void>
}

/** Creates a store that forgets the tokens when the program ends. */
export function createMemoryTokenStore(): TokenStore {
  let kept: Tokens | null = null
  return {
    get: () => kept,
    set: (tokens) => {
      kept = tokens
    },
  }
}

/** An access token is renewed this long before it expires, or a tenth of its lifetime if that is shorter. */
const MAX_RENEWAL_MARGIN_MS = 30_000

function toTokens(token: Token, requestedAt: number): Tokens {
  const lifetimeMs = token.expires_in * 1000
  return {
    accessToken: token.access_token,
    refreshToken: token.refresh_token,
    renewAt: requestedAt + lifetimeMs - Math.min(MAX_RENEWAL_MARGIN_MS, lifetimeMs / 10),
    sessionId: token.session_id,
    userId: token.user_id,
  }
}

const isRejected = (error: unknown) =>
  error instanceof AuthenticationError || error instanceof ValidationError

export class Session {
  readonly store: TokenStore
  readonly #signIn: SignIn | undefined
  readonly #requestToken: (grant: Grant) => Promise<Token>
  /** The access token that is being read or requested; parallel calls share it. */
  #pending: Promise<string> | undefined

  constructor(store: TokenStore, signIn: SignIn | undefined, requestToken: (grant: Grant) => Promise<Token>) {
    this.store = store
    this.#signIn = signIn
    this.#requestToken = requestToken
  }

  /**
   * Returns an access token that is current.
   * @param rejected the token that the server rejected with 401
   * @throws ApiError if no token can be had
   */
  async getAccessToken(rejected?: string): Promise<string> {
    // What is pending may be a token that another call was given before it was rejected.
    const shared = await this.#pending
    if (shared !== undefined && shared !== rejected) return shared
    this.#pending ??= this.#obtain(rejected).finally(() => {
      this.#pending = undefined
    })
    return this.#pending
  }

  /** Returns the id of the stored session. */
  async getId(): Promise<string | undefined> {
    return (await this.store.get())?.sessionId
  }

  /** Removes the stored tokens. */
  async clear(): Promise<void> {
    await this.store.set(null)
  }

  async #obtain(rejected: string | undefined): Promise<string> {
    // Reads the store each time: another tab or process may have renewed the tokens.
    const tokens = await this.store.get()
    if (tokens !== null && tokens.accessToken !== rejected && Date.now() < tokens.renewAt) {
      return tokens.accessToken
    }
    const requestedAt = Date.now()
    const renewed = toTokens(await this.#renew(tokens), requestedAt)
    await this.store.set(renewed)
    return renewed.accessToken
  }

  /** Requests tokens with the refresh token, or with the password if there is none or the session has ended. */
  async #renew(tokens: Tokens | null): Promise<Token> {
    if (tokens !== null) {
      try {
        return await this.#requestToken({ grant_type: 'refresh_token', refresh_token: tokens.refreshToken })
      } catch (error) {
        if (!isRejected(error)) throw error
        await this.store.set(null)
        if (this.#signIn === undefined) throw error
      }
    }
    if (this.#signIn === undefined) {
      throw new AuthenticationError('The token store has no tokens, and the client has no password', {
        status: 0,
        code: 'UNAUTHORIZED',
        requestId: null,
        fields: [],
        retryAfterMs: null,
      })
    }
    return this.#requestToken({ grant_type: 'password', ...this.#signIn })
  }
}
