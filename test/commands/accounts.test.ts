/** The commands for users, API keys and signing keys change a database that a server then serves. */
import { type Test, test } from 'tap'
import { createClient, testApp } from '../helpers/app.ts'
import { openDatabase, testDatabaseUrl } from '../helpers/database.ts'
import { SHORT_RUN, startModule } from '../helpers/process.ts'

const SECRET = 'test-secret-test-secret-test-secret-test'

async function type(t: Test, settings: NodeJS.ProcessEnv, args: string[], input = '') {
  const { child, output, ended } = startModule(t, 'cli.ts', settings, args, SHORT_RUN)
  child.stdin?.end(input)
  const { code } = await ended
  return { code, ...output }
}

test('commands create users and API keys and rotate signing keys', async (t) => {
  const { url, dataDir } = await testDatabaseUrl(t)
  const place = { ...(url && { DATABASE_URL: url }), ...(dataDir && { DATA_DIR: dataDir }) }
  const settings = { ...place, APP_SECRET: SECRET }

  const user = ['users', 'create', '--email', 'Root@example.com', '--name', 'Root', '--role', 'admin']
  const made = await type(t, settings, user, 'a good long secret\n')
  t.equal(made.code, 0, made.err)
  t.match(made.out, /Created the admin root@example.com/)
  t.notMatch(made.out + made.err, /good long secret/)
  const again = await type(t, settings, user, 'a good long secret\n')
  t.equal(again.code, 1)
  t.match(again.err, /email is taken/)
  const lookalike = user.with(3, 'roo\u212a@example.com')
  t.match(await type(t, settings, lookalike, 'a good long secret\n'), { code: 2, err: /^error: email / })
  const short = await type(t, settings, user, 'short\n')
  t.equal(short.code, 2)
  t.match(short.err, /password/)

  const createKey = (scopes: string, email = 'root@example.com', more = {}) => {
    const options = ['--email', email, '--name', 'm', '--scopes', scopes]
    return type(t, { ...settings, ...more }, ['api-keys', 'create', ...options])
  }
  const key = await createKey('products:read')
  t.equal(key.code, 0, key.err)
  t.match(key.out, /^rak_[\w-]+\n$/, 'standard output holds the key alone')
  t.equal((await createKey('*', 'unknown@example.com')).code, 1)
  // As with POST /api-keys: test/auth/scopes.test.ts.
  const feed = await createKey('events:read,products:write')
  t.equal(feed.code, 0, feed.err)
  for (const [scope, more] of [['all'], ['events:write'], ['events:read', { EVENTS: 'false' }]] as const)
    t.equal((await createKey(scope, undefined, more)).code, 2, scope)

  const before = await openDatabase({ url, dataDir })
  await before.run(
    `insert into api_keys (id, user_id, name, prefix, key_hash, scopes, expires_at)
     select gen_random_uuid(), id, 'filler', 'rak_filler', gen_random_uuid()::text, '["*"]', now()
     from users, generate_series(1, 98) where email = 'root@example.com'`,
  )
  await before.close()
  const beyond = await type(t, settings, ['api-keys', 'create', '--email', 'root@example.com', '--name', 'm'])
  t.equal(beyond.code, 1)
  t.match(beyond.err, /at most 100 API keys/, 'the limit holds for the command too')

  const rotated = await type(t, { ...settings }, ['signing-keys', 'rotate'])
  t.equal(rotated.code, 0, rotated.err)
  const keys = JSON.parse(rotated.out)
  t.match(keys, [
    { crv: 'Ed25519', d: String },
    { crv: 'Ed25519', d: String },
  ])
  t.notMatch(rotated.err, new RegExp(keys[0].d))
  const twice = await type(t, { ...settings, JWT_PRIVATE_KEY: rotated.out.trim() }, [
    'signing-keys',
    'rotate',
  ])
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
    const revoked = await type(t, settings, ['api-keys', 'revoke', '--prefix', key.out.slice(0, 10)])
    t.equal(revoked.code, 0, revoked.err)
    t.equal((await type(t, settings, ['api-keys', 'revoke', '--prefix', key.out.slice(0, 10)])).code, 1)
  }
})
