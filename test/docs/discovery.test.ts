/** Browsers and programs find the documents from the start page, its JSON form and the API catalog. */
import t, { type Test } from 'tap'
import { getServerUrl } from '../../plugins/openapi/index.ts'
import { release } from '../../src/release.ts'
import { type Client, type Json, type TestApp, testApp } from '../helpers/app.ts'

const PUBLIC_URL = 'https://api.shop.test/v'
const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'

const readVary = (headers: Headers) => (headers.get('vary') ?? '').toLowerCase().split(/,\s*/).sort()

t.test('the start page', async (t) => {
  const { anybody } = await testApp(t)

  await t.test('is HTML for a browser, and JSON for other clients', async (t) => {
    for (const [accept, type] of [
      [BROWSER, 'text/html; charset=utf-8'],
      ['text/html', 'text/html; charset=utf-8'],
      ['*/*', 'application/json; charset=utf-8'],
      ['application/json', 'application/json; charset=utf-8'],
      ['text/html;q=0.5, application/json', 'application/json; charset=utf-8'],
      ['image/png', 'application/json; charset=utf-8'],
      // A header of more than 1,024 characters is not read.
      [`text/html;level=${'1'.repeat(1_100)}, text/html`, 'application/json; charset=utf-8'],
    ] as const) {
      const reply = await anybody.get('/', { accept })
      t.equal(reply.status, 200)
      t.equal(reply.headers.get('content-type'), type, accept)
      t.same(readVary(reply.headers), ['accept', 'accept-encoding'])
      t.equal(reply.headers.get('api-version'), null)
    }
  })

  await t.test('links to documents that exist', async (t) => {
    const page = await anybody.get('/', { accept: BROWSER })
    t.match(page.text, `Release ${release}`)
    const shown = [...page.text.matchAll(/<a [^>]*href="([^"]+)"/g)].map(([, href = '']) => href)
    const { body } = await anybody.get('/')
    t.match(body, { name: 'resource-api', version: release })
    const { docs, api_catalog, liveness, readiness, versions } = body.links
    const listed = versions.flatMap(({ openapi, postman, bruno }: Json) => [openapi, postman, bruno])
    const links: string[] = [docs, ...listed, liveness, readiness, api_catalog]
    t.same(shown, links)
    for (const link of links) t.ok([200, 301].includes((await anybody.get(link)).status), link)
    t.same(
      versions.map(({ version, api }: Json) => [version, api]),
      [
        [1, '/api/v1'],
        [2, '/api/v2'],
      ],
    )
  })

  await t.test('allows no script and no other source', async (t) => {
    const { headers, text } = await anybody.get('/', { accept: BROWSER })
    const policy = headers.get('content-security-policy') ?? ''
    t.match(policy, /^default-src 'none';style-src 'sha256-[^']+';img-src data:;/)
    t.notMatch(policy, /script-src|unsafe/)
    t.notMatch(text, /<script|https?:\/\/(?!www\.w3\.org)/)
  })

  await t.test('handles HEAD, 304 and other methods', async (t) => {
    const fresh = await anybody.get('/')
    const head = await anybody.call('HEAD', '/')
    t.equal(head.status, 200)
    t.equal(head.headers.get('link'), fresh.headers.get('link'))
    const kept = await anybody.get('/', { 'if-none-match': fresh.headers.get('etag') ?? '' })
    t.equal(kept.status, 304)
    t.equal((await anybody.get('/', { accept: BROWSER, 'if-none-match': '"x"' })).status, 200)
    const refused = await anybody.post('/', {})
    t.equal(refused.status, 405)
    t.equal(refused.headers.get('allow'), 'GET, HEAD, OPTIONS')
  })
})

/** Reads the Link header as a map from the relation to the targets. */
function readLinks(headers: Headers): Map<string, string[]> {
  const links = new Map<string, string[]>()
  for (const [, target = '', rel = ''] of (headers.get('link') ?? '').matchAll(/<([^>]+)>; rel="([^"]+)"/g)) {
    links.set(rel, [...(links.get(rel) ?? []), target])
  }
  return links
}

t.test('/docs redirects below the path prefix of a proxy', async (t) => {
  const { anybody } = await testApp(t, { PUBLIC_URL })
  const { status, headers } = await anybody.get('/docs')
  t.equal(status, 301)
  t.equal(new URL(headers.get('location') ?? '', `${PUBLIC_URL}/docs`).href, `${PUBLIC_URL}/docs/`)
})

async function checkCatalog(t: Test, client: Client, prefix: string) {
  const reply = await client.get('/.well-known/api-catalog')
  t.equal(reply.status, 200)
  t.equal(
    reply.headers.get('content-type'),
    'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"',
  )
  const apis = [1, 2].map((version) => ({
    anchor: `${prefix}/api/v${version}`,
    'service-desc': [{ href: `${prefix}/openapi/v${version}.json`, type: 'application/json' }],
    'service-doc': [{ href: `${prefix}/docs`, type: 'text/html' }],
    status: [{ href: `${prefix}/livez`, type: 'application/json' }],
  }))
  const item = apis.map(({ anchor }) => ({ href: anchor }))
  t.same(reply.body, { linkset: [{ anchor: `${prefix}/.well-known/api-catalog`, item }, ...apis] })
  const head = await client.call('HEAD', '/.well-known/api-catalog')
  t.equal(head.status, 200)
  t.same(Object.fromEntries(readLinks(head.headers)), {
    'service-desc': [`${prefix}/openapi/v1.json`, `${prefix}/openapi/v2.json`],
    'service-doc': [`${prefix}/docs`],
    status: [`${prefix}/livez`],
    'api-catalog': [`${prefix}/.well-known/api-catalog`],
  })
}

t.test('the API catalog lists the versions (RFC 9727), and HEAD has the links', async (t) => {
  await checkCatalog(t, (await testApp(t)).anybody, '')
  await checkCatalog(t, (await testApp(t, { PUBLIC_URL })).anybody, PUBLIC_URL)
})

t.test('the server of the documents is absolute', async (t) => {
  const readServers = async ({ anybody }: TestApp) => (await anybody.get('/openapi/v1.json')).body

  await t.test('PUBLIC_URL, or the address that the server listens on', async (t) => {
    const local = await testApp(t)
    t.match(await readServers(local), {
      servers: [{ url: local.base }],
      info: { contact: { url: `${local.base}/` }, license: { identifier: 'MIT' } },
      externalDocs: { url: `${local.base}/docs` },
    })
    t.match(await readServers(await testApp(t, { PUBLIC_URL })), {
      servers: [{ url: PUBLIC_URL }],
      externalDocs: { url: `${PUBLIC_URL}/docs` },
    })
  })

  await t.test('localhost if the server listens on all interfaces', async (t) => {
    const getUrl = (address: string, family: string, https = false) =>
      getServerUrl(
        { addresses: () => [{ address, family, port: 8080 }], initialConfig: { https } },
        undefined,
      )
    t.equal(getUrl('0.0.0.0', 'IPv4'), 'http://localhost:8080')
    t.equal(getUrl('::', 'IPv6', true), 'https://localhost:8080')
    t.equal(getUrl('::1', 'IPv6'), 'http://[::1]:8080')
    t.equal(getUrl('10.0.0.7', 'IPv4', true), 'https://10.0.0.7:8080')
  })
})
