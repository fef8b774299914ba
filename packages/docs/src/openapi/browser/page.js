/** Starts the documentation page: Scalar with its configuration, and the account. */
import { startRepairs } from './accessibility.js'
import { createSessions } from './session.js'
import { getElement, startAccount } from './sign-in.js'

/** @import { Sessions } from './session.js' */

/**
 * What the script of Scalar defines.
 * @typedef {object} ScalarApi
 * @property {(selector: string, configuration: object) => void} createApiReference
 */

/** @type {{ api: string, version: string, server: string | null, scalar: object }} */
const { api, version, server, scalar } = JSON.parse(getElement('configuration', HTMLScriptElement).text)

/**
 * Follows a short link to the entry of an error code: `/docs/#rate_limit_exceeded`.
 * @returns whether the address is one
 */
function followShortLink() {
  const isShortLink = /^#[a-z_]+$/.test(location.hash)
  if (isShortLink) location.replace(`#${version}/description/${location.hash.slice(1)}`)
  return isShortLink
}

followShortLink()
// Scalar reads the address when it starts.
addEventListener('hashchange', () => {
  if (followShortLink()) location.reload()
})
const sessions = createSessions(new URL(api, location.href).href)
startAccount(sessions)
startRepairs()

// The documents name the address that the server listens on. The page may have been opened under another one, such as that
// of a proxy or a forwarded port, and the browser lets it send requests to its own origin only.
const address = server ?? new URL('..', location.href).href.replace(/\/$/, '')

/**
 * Loads a document, and puts the address into its samples.
 * @param {string | URL | Request} input
 * @param {RequestInit} [init]
 */
async function fetchDocument(input, init) {
  const response = await fetch(input, init)
  if (!response.ok) return response
  const text = await response.text()
  const { servers } = JSON.parse(text)
  return new Response(
    text.replaceAll(servers[0].url, () => address),
    response,
  )
}

/** @type {{ Scalar?: ScalarApi }} */
const { Scalar } = /** @type {object} */ (globalThis)
Scalar?.createApiReference('#app', {
  ...scalar,
  servers: [{ url: address }],
  fetch: fetchDocument,
  /** @param {{ request: Request }} sent */
  onBeforeRequest: ({ request }) => sessions.authorize(request),
})
