/** The commands for users, API keys and signing keys change a database that a server then serves. */
import { test } from 'tap'
import { createClient, testApp } from '../helpers/app.ts'
import { runCommand } from '../helpers/command.ts'
import { openDatabase, testDatabaseUrl } from '../helpers/database.ts'

const SECRET = 'test-secret-test-secret-test-secret-test'

test('commands create users and API keys and rotate signing keys', async (t) => {
  const { url, dataDir } = await testDatabaseUrl(t)
  const place = { ...(url && { DATABASE_URL: url }), ...(dataDir && { DATA_DIR: dataDir }) }
  const run = (args: string, input = '', more: NodeJS.ProcessEnv = {}) =>
    runCommand(t, args, { ...place, APP_SECRET: SECRET, ...more }, input)

  const createUser = (email: string, password: string) =>
    run(`users create --email ${email} --name Root --role admin`, `${password}\n`)
  const made = await createUser('Root@example.com', 'a good long secret')
  t.match(made, { code: 0, out: /Created the admin root@example.com/ })
  t.notMatch(made.out + made.err, /good long secret/)
  t.match(await createUser('Root@example.com', 'a good long secret'), { code: 1, err: /email is taken/ })
  t.match(await createUser('roo\u212a@example.com', 'a good long secret'), { code: 2, err: /^error: email / })
  t.match(await createUser('Root@example.com', 'short'), { code: 2, err: /password/ })

  const createKey = (scopes: string, email = 'root@example.com', more = {}) =>
    run(`api-keys create --email ${email} --name m --scopes ${scopes}`, '', more)
  const key = await createKey('products:read')
  t.match(key, { code: 0, out: /^rak_[\w-]+\n$/ }, 'standard output holds the key alone')
  t.equal((await createKey('*', 'unknown@example.com')).code, 1)
  // As with POST /api-keys: test/auth/scopes.test.ts.
  t.equal((await createKey('events:read,products:write')).code, 0)
  for (const [scope, more] of [['all'], ['events:write'], ['events:read', { EVENTS: 'false' }]] as const)
    t.equal((await createKey(scope, undefined, more)).code, 2, scope)

  const before = await openDatabase({ url, dataDir })
  await before.run(
    `insert into api_keys (id, user_id, name, prefix, key_hash, scopes, expires_at)
     select gen_random_uuid(), id, 'filler', 'rak_filler', gen_random_uuid()::text, '["*"]', now()
     from users, generate_series(1, 98) where email = 'root@example.com'`,
  )
  await before.close()
  t.match(await run('api-keys create --email root@example.com --name m'), {
    code: 1,
    err: /at most 100 API keys/,
  })

  const rotated = await run('signing-keys rotate')
  t.equal(rotated.code, 0, rotated.err)
  const keys = JSON.parse(rotated.out)
  const generated = { crv: 'Ed25519', d: String }
  t.match(keys, [generated, generated])
  t.notMatch(rotated.err, new RegExp(keys[0].d))
  const twice = await run('signing-keys rotate', '', { JWT_PRIVATE_KEY: rotated.out.trim() })
  t.same(JSON.parse(twice.out).slice(1), keys, 'the keys so far stay behind the new one')

  const database = await openDatabase({ url, dataDir })
  const [root] = await database.run('select email_is_confirmed from users')
  t.equal(root?.email_is_confirmed, true, 'the operator who types the address confirms it')
  const { anybody, base } = await testApp(
    t,
    { APP_SECRET: SECRET, JWT_PRIVATE_KEY: rotated.out.trim() },
    { database },
  )
  const grant = { grant_type: 'password', email: 'root@example.com', password: 'a good long secret' }
  t.equal((await anybody.post('/tokens', grant)).status, 201)
  const machine = createClient(base, { 'x-api-key': key.out.trim() })
  t.equal((await machine.get('/products')).status, 200)
  t.equal((await machine.get('/orders')).status, 403)
  if (url) {
    const revoke = `api-keys revoke --prefix ${key.out.slice(0, 10)}`
    t.equal((await run(revoke)).code, 0)
    t.equal((await run(revoke)).code, 1)
  }
})
