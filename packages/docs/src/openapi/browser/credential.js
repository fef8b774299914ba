/** Keeps the one credential that the page sends, for the session of the browser tab. */

/**
 * @typedef {object} Session a sign-in with e-mail address and password
 * @property {'session'} kind
 * @property {string} label
 * @property {string} value the access token
 * @property {string} refreshToken
 * @property {string} sessionId
 * @property {number} expiresAt the end of the access token, in milliseconds since 1970
 */

/**
 * @typedef {object} Given an API key or an access token that the reader has entered
 * @property {'api-key' | 'token'} kind
 * @property {string} label
 * @property {string} value
 */

/** @typedef {Session | Given} Credential */

const ITEM = 'api-reference.credential'

/** Emits `change` whenever the credential changes. */
export const changes = new EventTarget()

/** @returns {Credential | undefined} */
export function readCredential() {
  const text = sessionStorage.getItem(ITEM)
  return text === null ? undefined : JSON.parse(text)
}

/**
 * Replaces the credential, so that one at most is active.
 * @param {Credential | undefined} credential
 */
export function saveCredential(credential) {
  if (credential) sessionStorage.setItem(ITEM, JSON.stringify(credential))
  else sessionStorage.removeItem(ITEM)
  changes.dispatchEvent(new Event('change'))
}

/**
 * Puts a credential into a request, instead of any other.
 * @param {Headers} headers
 * @param {Credential} credential
 */
export function setCredential(headers, { kind, value }) {
  headers.delete('Authorization')
  headers.delete('X-API-Key')
  if (kind === 'api-key') headers.set('X-API-Key', value)
  else headers.set('Authorization', `Bearer ${value}`)
}
