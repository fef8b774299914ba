/** The commands for users, API keys and signing keys change a database that a server then serves. */
import t from 'tap'
import type { Database } from '../../../database/src/client/index.ts'
import { createClient, testApp } from '../../../testing/helpers/app.ts'
import { createMigratedDatabase, runCommand } from '../../../testing/helpers/command.ts'
import { openDatabase, testDatabaseUrl } from '../../../testing/helpers/database.ts'

const APP_SECRET = 'test-secret-test-secret-test-secret-test'
const PASSWORD = 'correct horse battery'
const { url, dataDir } = await testDatabaseUrl(t)
const place = { ...(url && { DATABASE_URL: url }), ...(dataDir && { DATA_DIR: dataDir }) }

const run = (command: string, input = '', settings: NodeJS.ProcessEnv = {}) =>
  runCommand(t, command, { ...place, APP_SECRET, ...settings }, input)

/** Opens the database, which no command can have open at the same time where it is embedded. */
async function withDatabase<T>(work: (database: Database) => Promise<T>): Promise<T> {
  const database = await openDatabase({ url, dataDir })
  try {
    return await work(database)
  } finally {
    await database.close()
  }
}

/** More than two pages of the list. */
const USERS = 2_345

await withDatabase(async (database) => {
  await database.run(
    `insert into users (id, name, email, role, status)
     select gen_random_uuid(), 'User ' || n, 'user' || n || '@example.com',
       case n when 1 then 'admin' when 2 then 'manager' else 'member' end,
       case when n % 1000 = 0 then 'suspended' else 'active' end
     from generate_series(1, $1::int4) as n`,
    [USERS],
  )
  await database.run(
    `insert into sessions (id, user_id, refresh_hash, expires_at, ends_at)
     select gen_random_uuid(), id, 'x', now() + interval '1 day', now() + interval '1 day'
     from users, generate_series(1, 2) where email in ('user1@example.com', 'user3@example.com')`,
  )
  await database.run(
    `insert into api_keys (id, user_id, name, prefix, key_hash, scopes, expires_at)
     select gen_random_uuid(), id, 'Export', 'rak_test', 'secret hash', '["products:read", "orders:read"]'::jsonb,
       '2026-12-31T00:00:00Z'::timestamptz
     from users where email = 'user3@example.com'
     union all select gen_random_uuid(), id, 'filler', 'rak_filler', 'filler ' || n, '["*"]', now()
     from users, generate_series(1, 100) n where email = 'user4@example.com'`,
  )
})

t.test('users list prints every user once, as a table or as JSON, by role and status', async (t) => {
  const table = await run('users list')
  const [header = '', ...lines] = table.out.trimEnd().split('\n')
  t.match(header, /^id +email +name +role +status +created_at$/)
  t.equal(lines.length, USERS)
  t.match(
    lines[0],
    /^[0-9a-f-]{36} {2}user\d+@example\.com +User \d+ +\w+ +\w+ +\d{4}-\d\d-\d\dT[\d:.]{12}Z$/,
  )

  const list = async (filters = '') => JSON.parse((await run(`users list --json ${filters}`)).out)
  const users = await list()
  t.equal(new Set(users.map(({ id }: { id: string }) => id)).size, USERS)
  const fields = ['id', 'email', 'name', 'role', 'status', 'created_at', 'updated_at']
  t.strictSame(Object.keys(users[0]), fields, 'no password hash')
  t.match(await list('--role admin'), [{ email: 'user1@example.com', role: 'admin', status: 'active' }])
  t.equal((await list('--role member --status suspended')).length, 2)
  t.strictSame(await list('--role admin --status inactive'), [])
  t.strictSame(await run('users list --status inactive'), { code: 0, out: '', err: 'None found\n' })
})

t.test('api-keys list names the owners and shows no secret', async (t) => {
  const table = await run('api-keys list')
  t.match(
    table.out,
    /rak_test +user3@example\.com +Export +products:read,orders:read +- +2026-12-31T00:00:00\.000Z/,
  )
  const { out } = await run('api-keys list --email User3@example.com --json')
  t.match(JSON.parse(out), [
    {
      prefix: 'rak_test',
      owner: 'user3@example.com',
      name: 'Export',
      scopes: ['products:read', 'orders:read'],
      last_used_at: null,
      expires_at: '2026-12-31T00:00:00.000Z',
    },
  ])
  t.notMatch(table.out + out, 'secret hash')
})

t.test('commands that cannot do what they were asked to do change nothing', async (t) => {
  const setPassword = 'users set-password user1@example.com'
  const createUser = (email: string) => `users create --email ${email} --role admin`
  const createKey = (email: string, scopes = '*') =>
    `api-keys create --email ${email} --name m --scopes ${scopes}`
  const read = () =>
    withDatabase((database) =>
      database.run('select u, k from users u left join api_keys k on k.user_id = u.id order by u.id, k.id'),
    )
  const before = await read()
  for (const [command, code, message, input = ''] of [
    [setPassword, 2, /^error: password must .*12/, 'short\n'],
    [setPassword, 2, /^error: password must differ from the email address and/, 'USER1@example.com\n'],
    [setPassword, 2, /^error: A password is required$/m],
    [`${setPassword} --password correct`, 2, /^error: Do not pass a password as an argument/],
    ['users set-password unknown@example.com', 1, /No user has the .* unknown@example\.com/, PASSWORD],
    ['api-keys list --email unknown@example.com', 1, /No user has the email address/],
    [createUser('User1@example.com'), 1, /email is taken/, PASSWORD],
    [createUser('roo\u212a@example.com'), 2, /^error: email /, PASSWORD],
    [createUser('root@example.com'), 2, /password/, 'short'],
    [createKey('unknown@example.com'), 1, /No user has/],
    [createKey('user1@example.com', 'all'), 2, /scopes/],
    [createKey('user1@example.com', 'events:write'), 2, /scopes/],
    [createKey('user4@example.com'), 1, /at most 100 API keys/],
    ['users set-role user1@example.com --role member', 1, /The last active admin .* another role$/m],
    ['users set-status user1@example.com --status inactive', 1, /The last active admin cannot be/],
    ['users set-role user2@example.com', 2, /^error: required option '--role <role>' not specified/],
  ] as const)
    t.match(await run(command, input), { code, out: '', err: message }, command)
  const withoutEvents = await run(createKey('user1@example.com', 'events:read'), '', { EVENTS: 'false' })
  t.match(withoutEvents, { code: 2, err: /scopes/ })
  t.strictSame(await read(), before)
})

t.test('set-role and set-status print the change and end sessions', async (t) => {
  const [role, status] = [
    'set-role user2@example.com --role admin',
    'set-status user1@example.com --status suspended',
  ]
  for (const [command, out] of [
    [role, 'Changed the role of user2@example.com from manager to admin\n'],
    [role, 'The role of user2@example.com is admin already\n'],
    [status, 'Changed the status of user1@example.com from active to suspended; ended 2 sessions\n'],
  ] as const)
    t.strictSame(await run(`users ${command}`), { code: 0, out, err: '' }, command)
})

t.test('signing-keys rotate prints a new key before the current ones', async (t) => {
  const rotated = await run('signing-keys rotate')
  const keys = JSON.parse(rotated.out)
  const generated = { crv: 'Ed25519', d: String }
  t.match(keys, [generated, generated])
  t.notMatch(rotated.err, keys[0].d)
  const twice = await run('signing-keys rotate', '', { JWT_PRIVATE_KEY: rotated.out.trim() })
  t.same(JSON.parse(twice.out).slice(1), keys)
})

t.test('a server knows the users, passwords and keys that commands created', async (t) => {
  const created = await run('users create --email Root@example.com --name Root --role admin', `${PASSWORD}\n`)
  t.match(created, { code: 0, out: /^Created the admin root@example.com with id [\w-]+\n$/, err: '' })
  const inactive = await run('users set-password user1@example.com', `${PASSWORD}\n`)
  t.match(inactive, { code: 0, err: 'Warning: user1@example.com is suspended and cannot sign in\n' })
  const set = await run('users set-password User3@example.com', `${PASSWORD}\n`)
  t.strictSame(set, { code: 0, err: '', out: 'Set the password of user3@example.com; ended 2 sessions\n' })
  t.match(await run('api-keys list --email user3@example.com'), { out: 'rak_test' }, 'the API keys stay')
  const revoking = await run('users set-password user3@example.com --revoke-api-keys', `${PASSWORD}!\n`)
  t.match(revoking.out, 'ended 0 sessions and revoked 1 API key')
  const key = await run(
    'api-keys create --email root@example.com --name m --scopes events:read,products:read',
  )
  t.match(key, { code: 0, out: /^rak_[\w-]+\n$/ }, 'standard output holds the key alone')

  await withDatabase(async (opened) => {
    const [root] = await opened.run(`select email_verified_at from users where email = 'root@example.com'`)
    t.ok(root?.email_verified_at, 'the operator who types the address verifies it')
    const template = 'password-changed'
    const select = `select payload ->> 'template' as template from work where payload ->> 'recipient' = 'user3@example.com'`
    t.same(await opened.run(select), [{ template }, { template }], 'users hear of an operator too')
  })
  const database = await openDatabase({ url, dataDir })
  const { out: JWT_PRIVATE_KEY } = await run('signing-keys rotate')
  const { anybody, base } = await testApp(t, { APP_SECRET, JWT_PRIVATE_KEY }, { database })
  for (const [email, password, status] of [
    ['root@example.com', PASSWORD, 201],
    ['user3@example.com', `${PASSWORD}!`, 201],
    ['user3@example.com', PASSWORD, 401],
    ['user1@example.com', PASSWORD, 401],
  ] as const)
    t.equal(
      (await anybody.post('/tokens', { grant_type: 'password', email, password })).status,
      status,
      email,
    )
  const machine = createClient(base, { 'x-api-key': key.out.trim() })
  t.equal((await machine.get('/products')).status, 200)
  t.equal((await machine.get('/orders')).status, 403)
  if (url) {
    const revoke = `api-keys revoke --prefix ${key.out.slice(0, 10)}`
    t.equal((await run(revoke)).code, 0)
    t.equal((await run(revoke)).code, 1)
  }
})

t.test('--json prints the result of a change as one object', async (t) => {
  const settings = await createMigratedDatabase(t)
  const runJson = async (command: string, input = '') =>
    JSON.parse((await runCommand(t, `${command} --json`, settings, input)).out)
  t.strictSame(await runJson('migrate'), { applied: [] })
  const created = await runJson('users create --email json@example.com --role admin')
  t.match(created, { id: /^[\da-f-]{36}$/, email: 'json@example.com', role: 'admin' })
  t.strictSame(await runJson('users set-password json@example.com', `${PASSWORD}\n`), {
    email: 'json@example.com',
    ended_sessions: 0,
    revoked_api_keys: 0,
  })
  const second = await runJson('users create --email other@example.com')
  t.equal(second.role, 'member')
  t.strictSame(await runJson('users set-role other@example.com --role manager'), {
    email: 'other@example.com',
    role: 'manager',
    former: 'member',
    ended_sessions: 0,
  })
  t.strictSame(await runJson('users confirm-email other@example.com'), {
    id: second.id,
    email: 'other@example.com',
  })
  const link = '--issuer https://id.example.com --subject 7'
  t.match(await runJson(`users link other@example.com ${link}`), { subject: '7', replaced: null })
  const { key, prefix } = await runJson('api-keys create --email other@example.com --name script')
  t.ok(key.startsWith(prefix))
  t.strictSame(await runJson(`api-keys revoke --prefix ${prefix}`), { revoked: ['script'] })
  t.match(await runJson(`backup ${settings.DATA_DIR}/x.gz`), { rows: Number, bytes: Number })
})
