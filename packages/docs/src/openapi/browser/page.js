/** Starts Scalar with the configuration of the page. */
import { startRepairs } from './accessibility.js'

const text = document.getElementById('configuration')?.textContent
/** @type {{ version: string, server: string | null, errors: Record<string, string>, scalar: object }} */
const { version, server, errors, scalar } = JSON.parse(text ?? '')

/** Returns the fragment of the address. One that cannot be decoded is removed: Scalar would not start. */
function readFragment() {
  try {
    return decodeURI(location.hash.slice(1))
  } catch {
    history.replaceState(null, '', '#')
    return ''
  }
}

/**
 * Follows a short link to a section of the guide, such as `/docs/#errors`, or to an error code, in lower or upper case.
 * @returns whether the address is one
 */
function followShortLink() {
  const name = readFragment().toLowerCase()
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
addEventListener('click', ({ target }) => {
  const button = target instanceof Element ? target.closest('.scalar-client button') : null
  // On a phone, the response is below the request and its parameters.
  if (/^\s*Send /.test(button?.getAttribute('aria-label') ?? button?.textContent ?? ''))
    document.querySelector('.scalar-client section[aria-label=Response]')?.scrollIntoView({ block: 'start' })
})

// The documents name the address that the server listens on. The page may have been opened under another one, such as that
// of a proxy or a forwarded port, and the browser lets it send requests to its own origin only.
const address = server ?? new URL('..', location.href).href.replace(/\/$/, '')

/**
 * @typedef {object} ShownDocument
 * @property {{ description: string }} info
 * @property {{ name: string }[]} tags
 * @property {Record<string, object>} paths
 */

/** @param {string} title */
const toFragment = (title) =>
  title
    .toLowerCase()
    .replaceAll(/[^\w -]/g, '')
    .replaceAll(' ', '-')

/**
 * Returns the nearest section that a document has: the collection of an unknown operation, else the introduction.
 * @param {readonly string[]} names those of the address, after the version
 * @param {ShownDocument} document
 */
function findSection(names, { info, tags, paths }) {
  const [kind, name = '', method = '', ...path] = names
  const titles = [...info.description.matchAll(/^##+ (.+)$/gm)].map(([, title = '']) => toFragment(title))
  if (kind === 'description' && titles.includes(name)) return names
  if (!tags.some((tag) => tag.name === name)) return ['description', 'introduction']
  // A field of an operation follows its path after a dot. Webhooks have a word in lower case instead of a method.
  const target = `/${path.join('/')}.`
  const isKnown = Object.entries(paths).some(
    ([each, methods]) => target.startsWith(`${each}.`) && method.toLowerCase() in methods,
  )
  return kind === 'tag' && (isKnown || method.toUpperCase() !== method) ? names : ['tag', name]
}

/**
 * Leads an unknown address to the nearest section. Scalar would show the introduction under that address.
 * @param {string} loaded the version
 * @param {ShownDocument} document
 */
function leaveUnknownSection(loaded, document) {
  const fragment = readFragment()
  const [, ...names] = fragment.split('/')
  const section = [loaded, ...findSection(names, document)].join('/')
  if (names.length === 0 || section === fragment) return
  location.replace(`#${section}`)
  location.reload()
}

/** The first document is that of the address; the reader chooses others. */
let isLoaded = false

/**
 * Loads a document, and puts the address into it.
 * @param {string | URL | Request} input
 * @param {RequestInit} [init]
 */
async function fetchDocument(input, init) {
  const response = await fetch(input, init)
  if (!response.ok) return response
  const document = await response.text()
  const { servers, ...shown } = JSON.parse(document)
  if (!isLoaded) leaveUnknownSection(/v\d+(?=\.json$)/.exec(response.url)?.[0] ?? version, shown)
  isLoaded = true
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
