/** Browsers and programs find the documents from the start page, its JSON form and the API catalog. */
import t from 'tap'
import { identity } from '../../../database/src/identity.ts'
import { release } from '../../../database/src/lib/release.ts'
import { getServerUrl } from '../../../http/src/http/server-url.ts'
import { type Json, testApp } from '../../../testing/helpers/app.ts'

const PUBLIC_URL = 'https://api.shop.test/v'
const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'

const local = await testApp(t)
const proxied = await testApp(t, { PUBLIC_URL })

t.test('the start page', async (t) => {
  const { anybody } = local

  await t.test('is HTML for a browser, and JSON for other clients', async (t) => {
    for (const [accept, type] of [
      [BROWSER, 'text/html'],
      ['text/html', 'text/html'],
      ['*/*', 'application/json'],
      ['application/json', 'application/json'],
      ['text/html;q=0.5, application/json', 'application/json'],
      ['image/png', 'application/json'],
      // A header of more than 1,024 characters is not read.
      [`text/html;level=${'1'.repeat(1_100)}, text/html`, 'application/json'],
    ] as const) {
      const { status, headers } = await anybody.get('/', { accept })
      t.equal(status, 200)
      t.equal(headers.get('content-type'), `${type}; charset=utf-8`, accept)
      t.match(headers.get('vary'), /^accept, accept-encoding$/i)
      t.equal(headers.get('api-version'), null)
    }
  })

  await t.test('names the collections of the application before those of every application', async (t) => {
    const { text } = await anybody.get('/', { accept: BROWSER })
    const names = [...text.matchAll(/<code>\/([^<]+)<\/code>/g)].map(([, name]) => name)
    t.same(names.slice(0, 4), ['user-profiles', 'products', 'orders', 'users'])
    t.ok(names.includes('events'))
  })

  await t.test('links to documents that exist', async (t) => {
    const page = await anybody.get('/', { accept: BROWSER })
    t.match(page.text, `Release ${release}`)
    const { body } = await anybody.get('/')
    t.match(body, { name: 'resource-api', version: release })
    const { docs, api_catalog, liveness, readiness, versions } = body.links
    const shown = [...page.text.matchAll(/<a [^>]*href="([^"]+)"/g)].map(([, href = '']) => href)
    t.same(shown, [docs, ...versions.map(({ openapi }: Json) => openapi)], 'what a person reads')
    for (const link of [...shown, liveness, readiness, api_catalog])
      t.ok([200, 301].includes((await anybody.get(link)).status), link)
    t.match(versions, [
      { version: 1, api: '/api/v1' },
      { version: 2, api: '/api/v2' },
    ])
  })

  await t.test('has an example with the address of the service, which works', async (t) => {
    for (const [{ anybody }, url] of [
      [local, local.base],
      [proxied, PUBLIC_URL],
    ] as const)
      t.match(
        (await anybody.get('/', { accept: BROWSER })).text,
        `YOUR_API_KEY' ${url}/api/v1/users/me</pre>`,
      )
    t.equal((await local.admin.get('/api/v1/users/me')).status, 200)
  })

  await t.test('allows no script and no other source', async (t) => {
    const { headers, text } = await anybody.get('/', { accept: BROWSER })
    const policy = headers.get('content-security-policy') ?? ''
    t.match(policy, /^default-src 'none';style-src 'sha256-[^']+';img-src data:;/)
    t.notMatch(policy, /script-src|unsafe/)
    t.notMatch(text.replace(/<pre.*?<\/pre>/s, ''), /<script|https?:\/\/(?!www\.w3\.org)/)
  })

  await t.test('handles HEAD, 304 and other methods', async (t) => {
    const fresh = await anybody.get('/')
    const head = await anybody.call('HEAD', '/')
    t.same([head.status, head.headers.get('link')], [200, fresh.headers.get('link')])
    t.equal((await anybody.get('/', { 'if-none-match': fresh.headers.get('etag') ?? '' })).status, 304)
    const refused = await anybody.post('/', {})
    t.same([refused.status, refused.headers.get('allow')], [405, 'GET, HEAD, OPTIONS'])
  })
})

t.test('clients see the names of the identity, and browsers its icon', async (t) => {
  const { anybody } = local
  const refused = await anybody.get('/products')
  t.equal(refused.headers.get('www-authenticate'), `Bearer realm="${identity.realm}"`)
  t.equal((await anybody.get('/openapi/v1.json')).body.info.title, identity.title)
  t.match((await anybody.get('/', { accept: 'text/html' })).text, `<title>${identity.title}</title>`)
  const { status, headers, text } = await anybody.get('/favicon.ico')
  t.match([status, headers.get('content-type'), text], [200, 'image/svg+xml', /^<svg /])
})

t.test('/docs redirects below the path prefix of a proxy', async (t) => {
  const { status, headers } = await proxied.anybody.get('/docs')
  t.equal(status, 301)
  t.equal(new URL(headers.get('location') ?? '', `${PUBLIC_URL}/docs`).href, `${PUBLIC_URL}/docs/`)
})

t.test('the API catalog lists the versions (RFC 9727), and HEAD has the links', async (t) => {
  for (const [prefix, { anybody }] of [
    ['', local],
    [PUBLIC_URL, proxied],
  ] as const) {
    const reply = await anybody.get('/.well-known/api-catalog')
    const profile = '"https://www.rfc-editor.org/info/rfc9727"'
    t.equal(reply.headers.get('content-type'), `application/linkset+json; profile=${profile}`)
    const apis = [1, 2].map((version) => ({
      anchor: `${prefix}/api/v${version}`,
      'service-desc': [{ href: `${prefix}/openapi/v${version}.json`, type: 'application/json' }],
      'service-doc': [{ href: `${prefix}/docs`, type: 'text/html' }],
      status: [{ href: `${prefix}/livez`, type: 'application/json' }],
    }))
    const item = apis.map(({ anchor }) => ({ href: anchor }))
    t.same(reply.body, { linkset: [{ anchor: `${prefix}/.well-known/api-catalog`, item }, ...apis] })
    const head = await anybody.call('HEAD', '/.well-known/api-catalog')
    t.same([reply.status, head.status], [200, 200])
    const links = head.headers.get('link')?.matchAll(/<([^>]+)>; rel="([^"]+)"/g) ?? []
    t.same([...links].map(([, target, rel]) => `${rel} ${target}`).sort(), [
      `api-catalog ${prefix}/.well-known/api-catalog`,
      `service-desc ${prefix}/openapi/v1.json`,
      `service-desc ${prefix}/openapi/v2.json`,
      `service-doc ${prefix}/docs`,
      `status ${prefix}/livez`,
    ])
  }
})

t.test('the server of the documents is absolute', async (t) => {
  for (const [{ anybody }, url] of [
    [local, local.base],
    [proxied, PUBLIC_URL],
  ] as const)
    t.match((await anybody.get('/openapi/v1.json')).body, {
      servers: [{ url }],
      info: { contact: { url: `${url}/` }, license: { identifier: 'MIT' } },
      externalDocs: { url: `${url}/docs` },
    })
  for (const [address, family, https, url] of [
    ['0.0.0.0', 'IPv4', false, 'http://localhost:8080'],
    ['::', 'IPv6', true, 'https://localhost:8080'],
    ['::1', 'IPv6', false, 'http://[::1]:8080'],
    ['10.0.0.7', 'IPv4', true, 'https://10.0.0.7:8080'],
  ] as const) {
    const server = { addresses: () => [{ address, family, port: 8080 }], initialConfig: { https } }
    t.equal(getServerUrl(server, undefined), url)
  }
})
