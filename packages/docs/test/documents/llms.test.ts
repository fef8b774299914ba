/** A language model finds the guide as Markdown, and the documents, from `/llms.txt`. */
import t from 'tap'
import { testApp } from '../../../testing/helpers/app.ts'

t.test('/llms.txt links to documents that exist, and the guide is that of the document', async (t) => {
  const { anybody } = await testApp(t)
  const index = await anybody.get('/llms.txt')
  t.equal(index.status, 200)
  t.equal(index.headers.get('content-type'), 'text/plain; charset=utf-8')
  const links = [...index.text.matchAll(/\]\(([^)]+)\)/g)].map(([, link = '']) => link)
  t.same(
    links.filter((link) => link !== '/mcp'),
    ['/openapi/v1.md', '/openapi/v1.json', '/openapi/v2.md', '/openapi/v2.json'],
  )
  for (const version of [1, 2]) {
    const guide = await anybody.get(`/openapi/v${version}.md`)
    t.equal(guide.status, 200)
    t.equal(guide.headers.get('content-type'), 'text/markdown; charset=utf-8')
    t.match(guide.text, /^#+ \w/m)
    t.equal(guide.text, (await anybody.get(`/openapi/v${version}.json`)).body.info.description)
  }
})

t.test('with PUBLIC_URL, the links have it', async (t) => {
  const { anybody } = await testApp(t, { PUBLIC_URL: 'https://api.shop.test/v' })
  t.match((await anybody.get('/llms.txt')).text, '(https://api.shop.test/v/openapi/v1.md)')
})
