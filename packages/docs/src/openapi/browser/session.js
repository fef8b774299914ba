/** Signs in, refreshes and signs out with the API. */
import { readCredential, saveCredential, setCredential } from './credential.js'

/** @import { Credential, Session } from './credential.js' */

/** Milliseconds before the end of an access token at which it is refreshed. */
const REFRESH_BEFORE_MS = 30_000

/** An error with a text for the reader. */
export class SignInError extends Error {
  /**
   * @param {string} message
   * @param {number} [status] of the response; undefined if there was none
   */
  constructor(message, status) {
    super(message)
    this.status = status
  }
}

/**
 * Returns the text of an error response: the message, the invalid fields, and when to try again.
 * @param {Response} response
 * @returns {Promise<string>}
 */
async function readMessage(response) {
  const body = await response.json().catch(() => undefined)
  const message = body?.error?.message ?? `The service answered with status ${response.status}`
  /** @type {{ field: string, message: string }[]} */
  const violations = body?.error?.details ?? body?.error?.errors ?? []
  const details = violations.map(({ field, message: text }) => `${field} ${text}`).join(', ')
  const seconds = response.headers.get('Retry-After')
  return [`${message}.`, details && `${details}.`, seconds && `Try again in ${seconds} s.`]
    .filter(Boolean)
    .join(' ')
}

/**
 * @param {string} url
 * @param {RequestInit} init
 */
async function send(url, init) {
  try {
    return await fetch(url, init)
  } catch {
    throw new SignInError('The service cannot be reached.')
  }
}

/**
 * Creates the functions that call the API.
 * @param {string} api the URL of a version
 */
export function createSessions(api) {
  /** @type {Promise<void> | undefined} */
  let refreshing

  /**
   * @param {object} grant
   * @param {string} label
   */
  async function requestTokens(grant, label) {
    const response = await send(`${api}/tokens`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(grant),
    })
    if (!response.ok) throw new SignInError(await readMessage(response), response.status)
    const { data } = await response.json()
    // The untyped and the typed envelope.
    const token = data.attributes ?? data
    saveCredential({
      kind: 'session',
      label,
      value: token.access_token,
      refreshToken: token.refresh_token,
      sessionId: token.session_id,
      expiresAt: Date.now() + token.expires_in * 1000,
    })
  }

  /** @param {Session} session */
  async function refresh({ refreshToken, label }) {
    try {
      await requestTokens({ grant_type: 'refresh_token', refresh_token: refreshToken }, label)
    } catch (error) {
      // The session has ended: the reader has to sign in again. After another failure the next request tries again.
      if (error instanceof SignInError && error.status === 401) saveCredential(undefined)
    }
  }

  return {
    /**
     * Signs in. The password is not kept.
     * @param {string} email
     * @param {string} password
     * @throws {SignInError}
     */
    signIn: (email, password) => requestTokens({ grant_type: 'password', email, password }, email),

    /**
     * Uses an API key or an access token, unless the API does not know it.
     * @param {'api-key' | 'token'} kind
     * @param {string} value
     * @throws {SignInError}
     */
    async use(kind, value) {
      if (!/^[\x21-\x7e]+$/.test(value)) {
        throw new SignInError('A credential has visible ASCII characters only.')
      }
      const label = kind === 'api-key' ? `API key ${value.slice(0, 10)}…` : 'Access token'
      /** @type {Credential} */
      const credential = { kind, value, label }
      const headers = new Headers()
      setCredential(headers, credential)
      const response = await send(`${api}/users/me`, { headers })
      // A key without the scope for this request is answered with 403, and is valid nevertheless.
      if (!response.ok && response.status !== 403) throw new SignInError(await readMessage(response))
      saveCredential(credential)
    },

    /** Forgets the credential, and ends the session that it belongs to. */
    async signOut() {
      const credential = readCredential()
      saveCredential(undefined)
      if (credential?.kind !== 'session') return
      const headers = new Headers()
      setCredential(headers, credential)
      // Without a response the session ends with its refresh token.
      await fetch(`${api}/sessions/${credential.sessionId}`, { method: 'DELETE', headers }).catch(() => {})
    },

    /**
     * Puts the active credential into a request of Scalar. An access token that is about to end is refreshed before.
     * @param {Request} request
     */
    async authorize(request) {
      const credential = readCredential()
      if (credential?.kind === 'session' && credential.expiresAt - Date.now() < REFRESH_BEFORE_MS) {
        // Two requests at the same time use the refresh token once.
        refreshing ??= refresh(credential).finally(() => {
          refreshing = undefined
        })
        await refreshing
      }
      const current = readCredential()
      if (current) setCredential(request.headers, current)
    },
  }
}

/** @typedef {ReturnType<typeof createSessions>} Sessions */
