/** The commands that list users and API keys and change a user, on a database that a server then serves. */
import t from 'tap'
import type { Database } from '../../drizzle/client/index.ts'
import { testApp } from '../helpers/app.ts'
import { runCommand } from '../helpers/command.ts'
import { openDatabase, testDatabaseUrl } from '../helpers/database.ts'

const { url, dataDir } = await testDatabaseUrl(t)
const place = { ...(url && { DATABASE_URL: url }), ...(dataDir && { DATA_DIR: dataDir }) }
const PASSWORD = 'correct horse battery'

const run = (command: string, input = '') => runCommand(t, command, place, input)

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
     select gen_random_uuid(), id, 'Export', 'rak_test', 'secret hash ' || email, '["products:read", "orders:read"]',
       '2026-12-31T00:00:00Z'
     from users where email in ('user1@example.com', 'user3@example.com')`,
  )
})

t.test('users list prints every user once, as a table or as JSON', async (t) => {
  const table = await run('users list')
  t.equal(table.code, 0, table.err)
  const [header = '', ...lines] = table.out.trimEnd().split('\n')
  t.match(header, /^id +email +name +role +status +created_at$/)
  t.equal(lines.length, USERS)
  t.match(
    lines[0],
    /^[0-9a-f-]{36} {2}user\d+@example\.com +User \d+ +\w+ +\w+ +\d{4}-\d\d-\d\dT[\d:.]{12}Z$/,
  )

  const users = JSON.parse((await run('users list --json')).out)
  t.equal(new Set(users.map(({ id }: { id: string }) => id)).size, USERS)
  const fields = ['id', 'email', 'name', 'role', 'status', 'created_at', 'updated_at']
  t.strictSame(Object.keys(users[0]), fields, 'no password hash')
})

t.test('users list filters by role and status', async (t) => {
  const admins = JSON.parse((await run('users list --role admin --json')).out)
  t.match(admins, [{ email: 'user1@example.com', role: 'admin', status: 'active' }])
  t.equal(JSON.parse((await run('users list --role member --status suspended --json')).out).length, 2)
  const noneAsJson = await run('users list --role admin --status inactive --json')
  t.strictSame(noneAsJson, { code: 0, out: '[]\n', err: '' })
  t.strictSame(await run('users list --status inactive'), { code: 0, out: '', err: 'None found\n' })
})

t.test('api-keys list names the owners and shows no secret', async (t) => {
  const table = await run('api-keys list')
  t.equal(table.out.trimEnd().split('\n').length, 3, table.err)
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
  t.match(await run('api-keys list --email nobody@example.com'), {
    code: 1,
    err: /No user has the e-mail address/,
  })
})

t.test('an invalid new password changes nothing', async (t) => {
  for (const [input, message] of [
    ['short\n', /^error: password must .*12/],
    ['user 1\n', /^error: password must/],
    ['USER1@example.com\n', /^error: password must differ from the e-mail address and the name/],
    ['', /^error: A password is required$/m],
  ] as const) {
    t.match(await run('users set-password user1@example.com', input), { code: 2, err: message }, input)
  }
  t.match(await run(`users set-password user1@example.com --password ${PASSWORD.replaceAll(' ', '')}`), {
    code: 2,
    err: /^error: Do not pass a password as an argument/,
  })
  t.match(await run('users set-password nobody@example.com', `${PASSWORD}\n`), {
    code: 1,
    err: /^users set-password failed: No user has the e-mail address nobody@example\.com/,
  })
  const count = `select (select count(*) from sessions) as sessions, count(password_hash) as passwords from users`
  t.strictSame(await withDatabase((database) => database.run(count)), [{ sessions: 4, passwords: 0 }])
})

t.test('the last active admin keeps role and status', async (t) => {
  for (const [command, code, output] of [
    ['set-role user1@example.com --role member', 1, /The last active admin cannot be .* another role$/m],
    [
      'set-status user1@example.com --status inactive',
      1,
      /The last active admin cannot be .* another role$/m,
    ],
    ['set-role user2@example.com', 2, /^error: required option '--role <role>' not specified/],
    [
      'set-role user2@example.com --role admin',
      0,
      /^Changed the role of user2@example.com from manager to admin$/m,
    ],
    ['set-role user2@example.com --role admin', 0, /^The role of user2@example.com is admin already$/m],
    [
      'set-status user1@example.com --status suspended',
      0,
      /^Changed the status of user1@example.com from active to suspended; ended 2 sessions$/m,
    ],
  ] as const) {
    t.match(await run(`users ${command}`), { code, [code === 0 ? 'out' : 'err']: output }, command)
  }
})

t.test('users set-password ends the sessions, and the new password signs in', async (t) => {
  const inactive = await run('users set-password user1@example.com', `${PASSWORD}\n`)
  t.match(inactive, { code: 0, err: 'Warning: user1@example.com is suspended and cannot sign in\n' })
  const set = await run('users set-password User3@example.com', `${PASSWORD}\n`)
  t.strictSame(set, { code: 0, err: '', out: 'Set the password of user3@example.com; ended 2 sessions\n' })
  t.equal(JSON.parse((await run('api-keys list --json')).out).length, 2, 'the API keys stay')
  const revoked = await run('users set-password user3@example.com --revoke-api-keys', `${PASSWORD}!\n`)
  t.match(revoked.out, 'ended 0 sessions and revoked 1 API key')

  const database = await openDatabase({ url, dataDir })
  const { anybody } = await testApp(t, {}, { database })
  const signIn = async (email: string, password: string) =>
    (await anybody.post('/tokens', { grant_type: 'password', email, password })).status
  t.equal(await signIn('user3@example.com', `${PASSWORD}!`), 201)
  t.equal(await signIn('user3@example.com', PASSWORD), 401)
  t.equal(await signIn('user1@example.com', PASSWORD), 401, 'a suspended user')
})
