/** Outside production without MAIL_URL, mails are files, and their links are in the log. */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Connection } from '../../../database/src/client/index.ts'
import type { NewMail } from '../../../resources/src/definition/mailer.ts'
import { APP_SECRET, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { createMailFiles, getLink, getRecipient } from '../../../testing/helpers/mails.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'

const lines: string[] = []
const files = createMailFiles(t)
const settings = { ...files.settings, LOG_LEVEL: 'info' }
const test = await testApp(t, settings, { logs: { write: (line) => void lines.push(line) } })
const { app, base, admin, adminId, anybody, database } = test
/** For apps of other settings, one after the other: each would send the mails of all. */
const shared = await createSharedDatabase(t)

let count = 0
/** Creates a user to whom no mail was sent. */
async function createUser(members = {}) {
  const user = { name: 'Ada', email: `ada.${++count}@example.com`, invite: false, ...members }
  return { email: user.email, id: String((await admin.post('/users', user)).body.data.id) }
}
const enqueue = (mail: NewMail, connection: Connection = database) => app.mail?.enqueue(connection, mail)
const waitUntilSent = () =>
  waitUntil(async () => (await database.run(`select id from work where kind = 'mail'`)).length === 0)

t.test('a mail is a file that only its owner can read, with a link that is in the log', async (t) => {
  const { email } = await createUser()
  t.equal((await anybody.post('/password-resets', { email })).status, 201)
  const mail = await files.waitFor({ to: email })
  const { url, id, token } = getLink(mail)
  t.equal(mail.subject, 'Reset your password')
  t.equal(url.origin, base, 'the address that the server listens on')
  t.equal(url.pathname, '/account/reset')
  t.match(token, /^[\w-]{43}$/)
  t.match(mail.text, `Hello Ada,`)
  t.match(mail.messageId, /^<[0-9a-f-]{36}@localhost>$/)
  t.equal(mail.headers.get('auto-submitted'), 'auto-generated')
  await waitUntilSent()
  for (const name of readdirSync(files.folder)) {
    t.match(name, /^[0-9a-f-]{36}-password-reset\.eml$/)
    t.equal(statSync(join(files.folder, name)).mode & 0o777, 0o600)
  }
  await waitUntil(() => lines.some((line) => line.includes('mail written')))
  const line = lines.find((each) => each.includes('mail written')) ?? ''
  t.match(JSON.parse(line), { template: 'password-reset', recipient: email, link: url.href })
  const completion = { token, password: 'a new pass phrase' }
  t.equal((await anybody.patch(`/password-resets/${id}`, completion)).status, 200)
})

t.test('links lead to PUBLIC_URL, or to APP_URL with the purpose', async (t) => {
  const link = 'id=[0-9a-f-]{36}&token=[\\w-]{43}$'
  for (const [setting, expected] of [
    [{ PUBLIC_URL: 'https://api.example.com/base' }, 'https://api\\.example\\.com/base/account/invite\\?'],
    [
      { APP_URL: 'https://app.example.com/in?lang=en' },
      'https://app\\.example\\.com/in\\?lang=en&purpose=invite&',
    ],
  ] as [Record<string, string>, string][]) {
    const files = createMailFiles(t)
    const { app, admin } = await testApp(t, { ...files.settings, ...setting }, { database: shared })
    await admin.post('/users', { name: 'Ada', email: 'ada@example.com' })
    const { href } = getLink(await files.waitFor({ to: 'ada@example.com' })).url
    t.match(href, new RegExp(`^${expected}${link}`))
    await app.close()
    await shared.run('delete from users where email = $1', ['ada@example.com'])
  }
})

t.test('the mail that an account exists leads to the page on which a password is reset', async (t) => {
  for (const [setting, expected] of [
    [{}, undefined],
    [{ APP_URL: 'https://app.example.com/in?lang=en' }, 'https://app.example.com/in?lang=en&purpose=reset'],
  ] as const) {
    const files = createMailFiles(t)
    const settings = { ...files.settings, ...setting, ALLOW_SIGNUP: 'true' }
    const { app, anybody, base } = await testApp(t, settings, { database: shared })
    const body = { name: 'Ada', email: 'known@example.com', password: 'a long pass phrase' }
    for (let i = 0; i < 2; i++) t.equal((await anybody.post('/users', body)).status, 201)
    const { url } = getLink(await files.waitFor({ to: body.email, subject: /already have an account/ }))
    t.equal(url.href, expected ?? `${base}/account/reset`)
    if (!expected) t.match((await anybody.get(url.pathname)).text, '<h1>Reset your password</h1>')
    await app.close()
    await shared.run('delete from users where email = $1', [body.email])
  }
})

t.test('a server that sends mails without PUBLIC_URL and APP_URL says where links lead', async (t) => {
  const mail = { MAIL_URL: 'smtp://127.0.0.1:1', MAIL_FROM: 'accounts@example.com', LOG_LEVEL: 'warn' }
  const readWarnings = async (settings: Record<string, string>) => {
    const lines: string[] = []
    const logs = { write: (line: string) => void lines.push(line) }
    const { app, base } = await testApp(t, { ...mail, ...settings }, { database: shared, logs })
    await app.close()
    return { base, warnings: lines.filter((line) => line.includes('links in mails lead to')) }
  }
  const { base, warnings } = await readWarnings({})
  t.match(warnings, [`"address":"${base}"`])
  t.same((await readWarnings({ PUBLIC_URL: 'https://api.example.com' })).warnings, [])
  t.same((await readWarnings({ APP_URL: 'https://app.example.com' })).warnings, [])
})

t.test('a mail that waits is sent after a change of APP_SECRET, and its link works', async (t) => {
  const database = shared
  // A port on which no server listens.
  const unreachable = { MAIL_URL: 'smtp://127.0.0.1:1', MAIL_FROM: 'accounts@example.com' }
  const former = await testApp(t, unreachable, { database })
  await former.admin.post('/users', { name: 'Ada', email: 'ada@example.com' })
  const failed = () =>
    database.run(`select id from work where kind = 'mail' and error is not null and claim_id is null`)
  await waitUntil(async () => (await failed()).length === 1)
  await former.app.close()
  await database.run('update work set next_attempt_at = now()')

  const files = createMailFiles(t)
  const secrets = { APP_SECRET: APP_SECRET.toUpperCase(), APP_SECRET_PREVIOUS: APP_SECRET }
  const { anybody } = await testApp(t, { ...files.settings, ...secrets }, { database })
  const { id, token } = getLink(await files.waitFor({ to: 'ada@example.com' }))
  const completion = { token, password: 'a new pass phrase' }
  t.equal((await anybody.patch(`/password-resets/${id}`, completion)).status, 200)
})

t.test('a mail whose link is void, or for an address without an active user, is not sent', async (t) => {
  const [{ email }, former] = [await createUser(), await createUser({ status: 'inactive' })]
  const before = (await files.read()).length
  for (const address of ['missing@example.com', former.email])
    t.equal((await anybody.post('/password-resets', { email: address })).status, 201)
  const link = { id: '0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f', token: 'x'.repeat(43) }
  await enqueue({ template: 'password-reset', recipient: email, link })
  app.outbox.publish()
  await waitUntilSent()
  t.equal((await files.read()).length, before)
})

t.test('no name of an address that is not verified is in mails, nor a line break of a value', async (t) => {
  const { email: recipient, id: userId } = await createUser({ name: '<b>Go to https://evil.example</b>' })
  const send = async (key: string, to = recipient) => {
    const values = { key, time: '2026-11-24 09:30 UTC' }
    await enqueue({ template: 'api-key-created', recipient: to, userId, values })
    app.outbox.publish()
    await waitUntilSent()
    return (await files.read()).filter((mail) => getRecipient(mail) === to).at(-1)
  }
  const verified = await send('a\r\n\r\nb')
  t.match(verified?.text, 'Hello <b>Go to https://evil.example</b>,')
  t.match(verified?.text, 'A new API key named "a b" was created')
  t.match(verified?.html, 'Hello &lt;b&gt;Go to https:&#x2F;&#x2F;evil.example&lt;&#x2F;b&gt;,')
  const other = await send('b', 'stranger@example.com')
  t.match(other?.text, /^Hello,\n/, 'nor in a mail to another address than that of the user')
  await database.run('update users set email_verified_at = null where id = $1', [userId])
  const stranger = await send('c')
  t.match(stranger?.text, /^Hello,\n/)
  t.notMatch(`${stranger?.text}${stranger?.html}`, 'evil')
})

t.test('a mail about a user whose id is no UUID is refused, since it would delay others', async (t) => {
  const wrong = { template: 'password-changed', recipient: 'a@example.com', userId: '1' }
  await t.rejects(async () => enqueue(wrong), { message: 'A mail about "1", which is no UUID' })
})

t.test('a mail that is rolled back is not sent, and one that no commit announces is', async (t) => {
  const { email: recipient } = await createUser()
  const notice = { template: 'password-changed', recipient, userId: adminId }
  const failed = database.transaction(async (tx) => {
    await enqueue({ ...notice, values: { time: 'first' } }, tx)
    throw new Error('rolled back')
  })
  await t.rejects(failed, { message: 'rolled back' })
  await database.transaction(async (tx) => enqueue({ ...notice, values: { time: 'second' } }, tx))
  t.match((await files.waitFor({ to: recipient })).text, 'second')
  t.equal((await files.read()).filter((mail) => getRecipient(mail) === recipient).length, 1)
  const unknown = async () => enqueue({ template: 'none', recipient })
  await t.rejects(unknown(), {
    message: /There is no template \/.*\/templates\/none\.txt$/,
  })
})
