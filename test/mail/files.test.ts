/** Outside production without MAIL_URL, mails are files, and their links are in the log. */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { APP_SECRET, testApp } from '../helpers/app.ts'
import { createSharedDatabase } from '../helpers/database.ts'
import { createMailFiles, getLink, getRecipient } from '../helpers/mails.ts'
import { waitUntil } from '../helpers/time.ts'

const countMails = async (database: Awaited<ReturnType<typeof testApp>>['database']) =>
  (await database.run('select id from mails')).length

t.test('a mail is a file that only its owner can read, with a link that is in the log', async (t) => {
  const files = createMailFiles(t)
  const lines: string[] = []
  const { base, admin, anybody, database } = await testApp(
    t,
    { ...files.settings, LOG_LEVEL: 'info' },
    { logs: { write: (line) => void lines.push(line) } },
  )
  await admin.post('/users', { name: 'Ada', email: 'ada@example.com', invite: false })
  t.equal((await anybody.post('/password-resets', { email: 'ada@example.com' })).status, 201)
  const mail = await files.waitFor({ to: 'ada@example.com' })
  const { url, id, token } = getLink(mail)
  t.equal(mail.subject, 'Reset your password')
  t.equal(url.origin, base, 'the address that the server listens on')
  t.equal(url.pathname, '/account/reset')
  t.match(token, /^[\w-]{43}$/)
  t.match(mail.text, `Hello Ada,`)
  t.match(mail.messageId, /^<[0-9a-f-]{36}@localhost>$/)
  t.equal(mail.headers.get('auto-submitted'), 'auto-generated')
  await waitUntil(async () => (await countMails(database)) === 0)
  for (const name of readdirSync(files.folder)) {
    t.match(name, /^[0-9a-f-]{36}-password-reset\.eml$/)
    t.equal(statSync(join(files.folder, name)).mode & 0o777, 0o600)
  }
  await waitUntil(() => lines.some((line) => line.includes('mail written')))
  const line = lines.find((each) => each.includes('mail written')) ?? ''
  t.match(JSON.parse(line), { template: 'password-reset', recipient: 'ada@example.com', link: url.href })
  t.equal(
    (await anybody.patch(`/password-resets/${id}`, { token, password: 'a new pass phrase' })).status,
    200,
  )
})

t.test('links lead to PUBLIC_URL, or to APP_URL with the purpose', async (t) => {
  const files = createMailFiles(t)
  const settings = { ...files.settings, PUBLIC_URL: 'https://api.example.com/base' }
  const { admin } = await testApp(t, settings)
  await admin.post('/users', { name: 'Ada', email: 'ada@example.com' })
  const invitation = getLink(await files.waitFor({ to: 'ada@example.com' }))
  t.match(
    invitation.url.href,
    /^https:\/\/api\.example\.com\/base\/account\/invite\?id=[0-9a-f-]{36}&token=[\w-]{43}$/,
  )

  const others = createMailFiles(t)
  const app = await testApp(t, { ...others.settings, APP_URL: 'https://app.example.com/in?lang=en' })
  await app.admin.post('/users', { name: 'Ada', email: 'ada@example.com' })
  const { href } = getLink(await others.waitFor({ to: 'ada@example.com' })).url
  t.match(href, /^https:\/\/app\.example\.com\/in\?lang=en&purpose=invite&id=[0-9a-f-]{36}&token=[\w-]{43}$/)
})

t.test('a server that sends mails without PUBLIC_URL and APP_URL says where links lead', async (t) => {
  const database = await createSharedDatabase(t)
  const mail = { MAIL_URL: 'smtp://127.0.0.1:1', MAIL_FROM: 'accounts@example.com', LOG_LEVEL: 'warn' }
  const readWarnings = async (settings: Record<string, string>) => {
    const lines: string[] = []
    const logs = { write: (line: string) => void lines.push(line) }
    const { base } = await testApp(t, { ...mail, ...settings }, { database, logs })
    return { base, warnings: lines.filter((line) => line.includes('links in mails lead to')) }
  }
  const { base, warnings } = await readWarnings({})
  t.match(warnings, [`"address":"${base}"`])
  t.same((await readWarnings({ PUBLIC_URL: 'https://api.example.com' })).warnings, [])
  t.same((await readWarnings({ APP_URL: 'https://app.example.com' })).warnings, [])
})

t.test('a mail that waits is sent after a change of APP_SECRET, and its link works', async (t) => {
  const database = await createSharedDatabase(t)
  // A port on which no server listens.
  const unreachable = { MAIL_URL: 'smtp://127.0.0.1:1', MAIL_FROM: 'accounts@example.com' }
  const former = await testApp(t, unreachable, { database })
  await former.admin.post('/users', { name: 'Ada', email: 'ada@example.com' })
  const failed = () => database.run('select id from mails where error is not null')
  await waitUntil(async () => (await failed()).length === 1)
  await former.app.close()
  await database.run('update mails set next_attempt_at = now()')

  const files = createMailFiles(t)
  const secrets = { APP_SECRET: APP_SECRET.toUpperCase(), APP_SECRET_PREVIOUS: APP_SECRET }
  const { anybody } = await testApp(t, { ...files.settings, ...secrets }, { database })
  const { id, token } = getLink(await files.waitFor({ to: 'ada@example.com' }))
  const completion = { token, password: 'a new pass phrase' }
  t.equal((await anybody.patch(`/password-resets/${id}`, completion)).status, 200)
})

t.test('a mail whose link is void, or for an address without an active user, is not sent', async (t) => {
  const files = createMailFiles(t)
  const { app, admin, anybody, database } = await testApp(t, files.settings)
  const create = async (email: string) =>
    (await admin.post('/users', { name: 'Ada', email, invite: false })).body.data.id
  await create('ada@example.com')
  const former = await create('former@example.com')
  await admin.patch(`/users/${former}`, { status: 'inactive' })
  for (const email of ['missing@example.com', 'former@example.com'])
    t.equal((await anybody.post('/password-resets', { email })).status, 201)
  await database.transaction(async (tx) => {
    const link = { id: '0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f', token: 'x'.repeat(43) }
    await app.mail?.enqueue(tx, { template: 'password-reset', recipient: 'ada@example.com', link })
  })
  app.outbox.publish()
  await waitUntil(async () => (await countMails(database)) === 0)
  t.same(await files.read(), [])
})

t.test(
  'a name of an address that is not verified is not in mails, nor a line break of a value',
  async (t) => {
    const files = createMailFiles(t)
    const { app, admin, database } = await testApp(t, files.settings)
    const { body } = await admin.post('/users', {
      ...{ name: '<b>Go to https://evil.example</b>', email: 'ada@example.com', invite: false },
    })
    const send = async (key: string) => {
      await app.mail?.enqueue(database, {
        ...{ template: 'api-key-created', recipient: 'ada@example.com', userId: body.data.id },
        values: { key, time: '2026-11-24 09:30 UTC' },
      })
      app.outbox.publish()
      await waitUntil(async () => (await countMails(database)) === 0)
      return (await files.read()).at(-1)
    }
    const verified = await send('a\r\n\r\nb')
    t.match(verified?.text, 'Hello <b>Go to https://evil.example</b>,')
    t.match(verified?.text, 'A new API key named "a b" was created')
    t.match(verified?.html, 'Hello &lt;b&gt;Go to https:&#x2F;&#x2F;evil.example&lt;&#x2F;b&gt;,')
    await database.run('update users set email_verified_at = null where id = $1', [body.data.id])
    const stranger = await send('c')
    t.match(stranger?.text, /^Hello,\n/)
    t.notMatch(`${stranger?.text}${stranger?.html}`, 'evil')
  },
)

t.test('a mail to another address than that of the user is without their name', async (t) => {
  const files = createMailFiles(t)
  const { app, adminId, database } = await testApp(t, files.settings)
  const recipient = 'stranger@example.com'
  await app.mail?.enqueue(database, { template: 'email-verification', recipient, userId: adminId })
  app.outbox.publish()
  t.match((await files.waitFor({ to: recipient })).text, /^Hello,\n/)
})

t.test('a mail that is rolled back is not sent, and one that no commit announces is', async (t) => {
  const files = createMailFiles(t)
  const { app, database, adminId } = await testApp(t, files.settings)
  const notice = { template: 'password-changed', recipient: 'admin@example.com', userId: adminId }
  const failed = database.transaction(async (tx) => {
    await app.mail?.enqueue(tx, { ...notice, values: { time: 'first' } })
    throw new Error('rolled back')
  })
  await t.rejects(failed, { message: 'rolled back' })
  await database.transaction(async (tx) => app.mail?.enqueue(tx, { ...notice, values: { time: 'second' } }))
  const mail = await files.waitFor({ to: 'admin@example.com' })
  t.match(mail.text, 'second')
  t.same((await files.read()).map(getRecipient), ['admin@example.com'])
})

t.test('a template that does not exist cannot be enqueued', async (t) => {
  const { app, database } = await testApp(t, createMailFiles(t).settings)
  const send = async () => app.mail?.enqueue(database, { template: 'none', recipient: 'a@example.com' })
  await t.rejects(send(), { message: 'There is no template templates/none.txt' })
})
