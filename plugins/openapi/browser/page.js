/** Starts the documentation page: Scalar with its configuration, and the account. */
import { getElement } from './get-element.js'
import { createSessions } from './session.js'
import { startAccount } from './sign-in.js'

/** @import { Sessions } from './session.js' */

/**
 * What the script of Scalar defines.
 * @typedef {object} ScalarApi
 * @property {(selector: string, configuration: object) => void} createApiReference
 */

/** @type {{ api: string, version: string, server: string | null, scalar: object }} */
const { api, version, server, scalar } = JSON.parse(getElement('configuration', HTMLScriptElement).text)
// Short links to the entries of error codes: `/docs/#rate_limit_exceeded`.
if (/^#[a-z_]+$/.test(location.hash)) {
  location.replace(`#${version}/description/${location.hash.slice(1)}`)
}
const sessions = createSessions(new URL(api, location.href).href)
startAccount(sessions)

/** @type {{ Scalar?: ScalarApi }} */
const { Scalar } = /** @type {object} */ (globalThis)
Scalar?.createApiReference('#app', {
  ...scalar,
  // The documents name the address that the server listens on. The page may have been opened under another one, such as
  // a forwarded port, and the browser lets it send requests to its own origin only.
  servers: [{ url: server ?? new URL('..', location.href).href.replace(/\/$/, '') }],
  /** @param {{ request: Request }} sent */
  onBeforeRequest: ({ request }) => sessions.authorize(request),
})
