/** The code has the name of the service in one file, and `npm run rename` changes it everywhere. */
import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { identity } from '../../lib/identity.ts'
import { testApp } from '../helpers/app.ts'

const root = new URL('../../', import.meta.url)
const NAME = new RegExp(identity.name.replaceAll('-', '[-_ ]?'), 'i')

t.test('only lib/identity.ts contains the name of the service', async (t) => {
  const files = ['src', 'plugins', 'drizzle', 'schemas', 'lib'].flatMap((folder) =>
    readdirSync(new URL(folder, root), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => `${entry.parentPath}/${entry.name}`),
  )
  t.ok(files.length > 200, 'the files are found')
  const named = files.filter((file) => NAME.test(readFileSync(file, 'utf8')))
  t.same(
    named.map((file) => file.split('/').slice(-2).join('/')),
    ['lib/identity.ts'],
  )
})

t.test('the names of the package and of the client package are those of the identity', async (t) => {
  const readPackage = (path: string) => JSON.parse(readFileSync(new URL(path, root), 'utf8'))
  const { name, bin } = readPackage('package.json')
  t.equal(name, identity.name)
  t.same(Object.keys(bin), [identity.name])
  t.equal(readPackage('client/package.json').name, identity.clientPackage)
})

t.test('clients see the names of the identity', async (t) => {
  const { anybody } = await testApp(t)
  const refused = await anybody.get('/products')
  t.equal(refused.headers.get('www-authenticate'), `Bearer realm="${identity.realm}"`)
  t.equal((await anybody.get('/openapi/v1.json')).body.info.title, identity.title)
  t.match((await anybody.get('/', { accept: 'text/html' })).text, `<title>${identity.title}</title>`)
})
