/** Starts Scalar with the configuration of the page. */
import { startRepairs } from './accessibility.js'

const text = document.getElementById('configuration')?.textContent
/** @type {{ version: string, server: string | null, errors: Record<string, string>, scalar: object }} */
const { version, server, errors, scalar } = JSON.parse(text ?? '')

/**
 * Follows a short link to a section of the guide, such as `/docs/#errors`, or to an error code, in lower or upper case.
 * @returns whether the address is one
 */
function followShortLink() {
  const name = location.hash.slice(1).toLowerCase()
  const isShortLink = /^[a-z_-]+$/.test(name)
  const section = new Map(Object.entries(errors)).get(name) ?? name
  if (isShortLink) location.replace(`#${version}/description/${section}`)
  return isShortLink
}

followShortLink()
// Scalar reads the address when it starts.
addEventListener('hashchange', () => {
  if (followShortLink()) location.reload()
})
startRepairs()

// The documents name the address that the server listens on. The page may have been opened under another one, such as that
// of a proxy or a forwarded port, and the browser lets it send requests to its own origin only.
const address = server ?? new URL('..', location.href).href.replace(/\/$/, '')

/**
 * Loads a document, and puts the address into it.
 * @param {string | URL | Request} input
 * @param {RequestInit} [init]
 */
async function fetchDocument(input, init) {
  const response = await fetch(input, init)
  if (!response.ok) return response
  const document = await response.text()
  const { servers } = JSON.parse(document)
  return new Response(
    document.replaceAll(servers[0].url, () => address),
    response,
  )
}

/**
 * Returns the language of samples that was chosen before, as Scalar stores it: `python/requests`. Its own configuration
 * would replace it at each start.
 */
function readChosenLanguage() {
  const [targetKey, clientKey] = localStorage.getItem('scalar-reference-selected-client-v2')?.split('/') ?? []
  return targetKey && clientKey ? { defaultHttpClient: { targetKey, clientKey } } : {}
}

/** @type {{ Scalar?: { createApiReference(selector: string, configuration: object): void } }} */
const { Scalar } = /** @type {object} */ (globalThis)
const failure = document.getElementById('failure')
if (!Scalar && failure) failure.hidden = false
Scalar?.createApiReference('#app', {
  ...scalar,
  ...readChosenLanguage(),
  fetch: fetchDocument,
  // By default in lower case: the id of a group, such as Accounts, would be that of a collection of this name.
  generateTagSlug: (/** @type {{ name: string }} */ { name }) => name,
})
