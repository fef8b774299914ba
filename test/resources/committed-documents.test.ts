/** docs/openapi has the documents that the app generates with default settings. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { testApp } from '../helpers/app.ts'

t.test('the committed documents are those of the app', async (t) => {
  // The address of a server with the default settings.
  const { anybody } = await testApp(t, { PUBLIC_URL: 'http://127.0.0.1:3000' })
  for (const name of ['v1.json', 'v2.json']) {
    const { body } = await anybody.get(`/openapi/${name}`)
    const committed = readFileSync(new URL(`../../docs/openapi/${name}`, import.meta.url), 'utf8')
    const isCurrent = committed === `${JSON.stringify(body, null, 2)}\n`
    t.ok(isCurrent, `docs/openapi/${name} is current; if not, run: npm run docs`)
  }
})
