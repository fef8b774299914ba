/** The commands `users link` and `users confirm-email` link an account to a subject of an identity provider. */
import t from 'tap'
import { createClient, testApp } from '../../../testing/helpers/app.ts'
import { runCommand } from '../../../testing/helpers/command.ts'
import { openDatabase, testDatabaseUrl } from '../../../testing/helpers/database.ts'
import { ISSUER, signUserToken, startProvider } from './identity-provider.ts'

const { url, dataDir } = await testDatabaseUrl(t)
const place = { ...(url && { DATABASE_URL: url }), ...(dataDir && { DATA_DIR: dataDir }) }

/** Runs a command on that database. */
async function type(settings: NodeJS.ProcessEnv, ...args: string[]) {
  const { code, out, err } = await runCommand(t, args, { ...place, ...settings })
  return { code, out: out.trimEnd(), err: err.trimEnd() }
}

const link = (email: string, subject: string, issuer = ISSUER) =>
  type({}, 'users', 'link', email, '--issuer', issuer, '--subject', subject)

const open = () => openDatabase({ ...(url && { url }), ...(dataDir && { dataDir }) })

// The embedded database cannot be open when a command runs.
const database = await open()
await database.run(
  `insert into users (id, name, email) select gen_random_uuid(), name, name || '@example.com'
   from unnest(array['ada', 'grace', 'karl']) as name`,
)
await database.close()

t.test('users link sets the subject of an account', async (t) => {
  t.match(await link('Ada@Example.com', 'ada'), {
    code: 0,
    out: `Linked ada@example.com to the subject ada of ${ISSUER}`,
    err: '',
  })
  t.equal((await link('ada@example.com', 'ada')).code, 0, 'again')
  t.match(await link('grace@example.com', 'ada'), {
    code: 1,
    err: /Subject ada is already linked to another user/,
  })
  t.match(await link('ada@example.com', 'countess'), { code: 0, out: /replacing the subject ada$/ })
  t.equal((await link('grace@example.com', 'ada')).code, 0, 'the former subject is free')
  t.equal((await link('ada@example.com', 'ada', 'https://another.example')).code, 0, 'another issuer')
  t.match(await link('unknown@example.com', 'x'), {
    code: 1,
    err: /No user has the email address unknown@example.com/,
  })
  const settings = { AUTH_JWKS_URL: 'https://id.example/jwks', AUTH_ISSUER: `${ISSUER}/`, AUTH_AUDIENCE: 'a' }
  const args = ['ada@example.com', '--issuer', ISSUER, '--subject', 'countess']
  const noted = await type(settings, 'users', 'link', ...args)
  t.match(noted, { code: 0, err: `Warning: AUTH_ISSUER is ${ISSUER}/; tokens of other issuers are rejected` })
})

t.test('invalid arguments change nothing, with exit code 2', async (t) => {
  const LINK = ['--issuer', ISSUER, '--subject']
  for (const [message, ...args] of [
    [/^error: missing required argument 'email'\nTry /, 'users', 'link', ...LINK, 's'],
    [/^error: required option '--issuer <url>' not specified/, 'users', 'link', 'ada@example.com'],
    [/^error: --subject must be 1 to 255 ASCII/, 'users', 'link', 'ada@example.com', ...LINK, 'é'],
    [/consists of visible ASCII characters/, 'users', 'link', '\u212aarl@example.com', ...LINK, 'k'],
    [/^error: too many arguments/, 'users', 'confirm-email', 'a@example.com', 'b@example.com'],
    [/consists of visible ASCII characters/, 'users', 'confirm-email', '\u212aarl@example.com'],
    [/^error: unknown option '--issuer'/, 'users', 'confirm-email', 'ada@example.com', '--issuer', ISSUER],
  ] as [RegExp, ...string[]][]) {
    const { code, err, out } = await type({}, ...args)
    t.same([code, out], [2, ''], args.join(' '))
    t.match(err, message)
  }
  t.match(
    (await type({}, 'users', 'link', '--help')).out,
    /^Usage: npx resource-api users link \[options\] <email>$/m,
  )
})

t.test('the server accepts tokens of linked and of confirmed accounts', async (t) => {
  t.match(await type({}, 'users', 'confirm-email', 'KARL@example.com'), {
    code: 0,
    out: /^Marked the email address karl@example.com of user [0-9a-f-]{36} as verified$/,
  })
  t.match(await type({}, 'users', 'confirm-email', 'unknown@example.com'), {
    code: 1,
    err: /No user has the email address unknown/,
  })
  const provider = await startProvider(t)
  const { base } = await testApp(t, provider.settings, { database: await open() })
  const nameOf = async (token: string) => {
    const reply = await createClient(base, { authorization: `Bearer ${token}` }).get('/users/me')
    return reply.body.data?.name ?? reply.status
  }
  t.equal(await nameOf(await signUserToken('countess')), 'ada')
  t.equal(await nameOf(await signUserToken('ada')), 'grace')
  t.equal(await nameOf(await signUserToken('karl', 'karl@example.com')), 'karl')
  t.equal(await nameOf(await signUserToken('karl')), 'karl')
})
