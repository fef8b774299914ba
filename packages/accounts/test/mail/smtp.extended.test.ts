/** Mails are sent by SMTP: what the worker does with the answers of servers, and with servers that do not answer. */
import { generateKeyPairSync } from 'node:crypto'
import { createServer, type Socket } from 'node:net'
import type { ParsedMail } from 'mailparser'
import type { SMTPServerOptions } from 'smtp-server'
import t, { type Test } from 'tap'
import type { NewMail } from '../../../resources/src/definition/mailer.ts'
import { recordMessages, type TestApp, testApp } from '../../../testing/helpers/app.ts'
import { getRecipient, startSmtpServer } from '../../../testing/helpers/mails.ts'
import { listen } from '../../../testing/helpers/network.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'

const RECIPIENT = 'ada@example.com'

/** Returns a function that commits a mail to the first admin. */
const createSend =
  ({ app, database, adminId }: TestApp) =>
  async (recipient = RECIPIENT, mail: Partial<NewMail> = {}) => {
    const notice = { template: 'password-changed', userId: adminId, values: { time: 'today' } }
    await database.transaction(async (tx) => app.mail?.enqueue(tx, { ...notice, ...mail, recipient }))
    app.outbox.publish()
  }

/** The condition on mails that wait after a failure. */
const WAITING = `kind = 'mail' and status = 'pending' and error is not null and claim_id is null`

type MailState = { recipient: string; attempts: number; error: string; is_failed: boolean; delay: number }

/** @param recipient undefined for all */
const readStates = async ({ database }: TestApp) =>
  // The columns of the statement.
  (await database.run(
    `select payload ->> 'recipient' as recipient, attempts, error, next_attempt_at is null as is_failed,
      extract(epoch from next_attempt_at - now())::float8 as delay from work where kind = 'mail' order by id`,
  )) as MailState[]

/** Waits until an attempt of the only mail has failed. */
async function waitForError(app: TestApp): Promise<MailState> {
  let state: MailState | undefined
  await waitUntil(async () => {
    state = (await readStates(app))[0]
    return typeof state?.error === 'string'
  })
  if (!state) throw new Error('no mail')
  return state
}

const waitUntilEmpty = (app: TestApp) => waitUntil(async () => (await readStates(app)).length === 0)

/** Makes the mails that wait due now, and sends another one, whose commit wakes the worker. */
async function retryNow(app: TestApp): Promise<void> {
  await app.database.run(`update work set next_attempt_at = now() where ${WAITING}`)
  await createSend(app)('other@example.com')
}

/** An answer of an SMTP server, as `smtp-server` takes it. */
const toAnswer = (responseCode: number, message: string) =>
  Object.assign(new Error(message), { responseCode })

const STARTTLS: SMTPServerOptions = { disabledCommands: [] }
/** The certificate of `smtp-server` is self-signed. */
const REQUIRED = '?requireTLS=true&tls.rejectUnauthorized=false'

const listHeaders = ({ headerLines }: ParsedMail) => headerLines.map(({ key }) => key)

/** Starts a server and an app that sends its mails there, with the results of mails that have ended. */
async function start(t: Test, options: Parameters<typeof startSmtpServer>[1] = {}, settings = {}) {
  const mailbox = await startSmtpServer(t, options)
  const app = await testApp(t, { ...mailbox.settings, ...settings })
  return { app, mailbox, ended: recordMessages(t, 'resource-api:mail:ended') }
}

t.test('a mail is sent after STARTTLS and authentication, with a Message-ID and a signature', async (t) => {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const sessions: { secure: boolean; user: string }[] = []
  const { app, mailbox, ended } = await start(
    t,
    {
      ...STARTTLS,
      query: REQUIRED,
      credentials: 'us%40er:p%3Aa%2Fss%3F@',
      onAuth({ username = '', password = '' }, session, callback) {
        sessions.push({ secure: session.secure, user: username })
        if (username === 'us@er' && password === 'p:a/ss?') callback(null, { user: username })
        else callback(new Error('wrong'))
      },
    },
    {
      MAIL_DKIM_DOMAIN: 'example.com',
      MAIL_DKIM_SELECTOR: 'mail2026',
      MAIL_DKIM_KEY: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    },
  )
  await createSend(app)()
  const mail = await mailbox.waitFor({ to: RECIPIENT })
  await waitUntilEmpty(app)
  t.same(sessions, [{ secure: true, user: 'us@er' }])
  t.same(ended, [{ result: 'sent' }])
  t.equal(mail.from?.text, '"Acme" <accounts@example.com>')
  t.match(mail.messageId, /^<[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f-]{17}@example\.com>$/)
  t.match(mail.text, 'today')
  t.match(mail.html, 'today')
  const signature = mail.headerLines.find(({ key }) => key === 'dkim-signature')?.line ?? ''
  t.match(signature, /d=example\.com;.*s=mail2026;/s)
  t.match(signature, /h=from:subject:date:message-id:to:/)
})

t.test('a wrong password, an untrusted certificate and a lack of STARTTLS are tried again', async (t) => {
  const refusing = await startSmtpServer(t, {
    ...STARTTLS,
    query: REQUIRED,
    credentials: 'user:secret-of-the-server@',
    onAuth: (_, __, callback) => callback(toAnswer(535, 'Invalid credentials')),
  })
  const untrusted = await startSmtpServer(t, { ...STARTTLS, query: '?requireTLS=true' })
  const plain = await startSmtpServer(t)
  // The same server, by an address that is not known to be loopback.
  const url = (plain.settings.MAIL_URL ?? '').replace('127.0.0.1', '[::ffff:127.0.0.1]')
  for (const [settings, error] of [
    [refusing.settings, /535/],
    [untrusted.settings, /certificate/],
    [{ ...plain.settings, MAIL_URL: `${url}?ignoreTLS=false` }, /STARTTLS/],
  ] as const) {
    const app = await testApp(t, settings)
    await createSend(app)()
    const state = await waitForError(app)
    t.match(state, { attempts: 1, is_failed: false, error })
    t.notMatch(state.error, 'secret-of-the-server')
  }
  t.same([...(await untrusted.read()), ...(await plain.read())], [])
  const optional = await testApp(t, { ...plain.settings, MAIL_URL: `${url}?requireTLS=false` })
  await createSend(optional)()
  t.ok(await plain.waitFor({ to: RECIPIENT }), 'unless MAIL_URL says otherwise')
})

t.test('a mail that the server refuses for now is sent again after five seconds', async (t) => {
  let isBusy = true
  const { app, mailbox, ended } = await start(t, {
    onRcptTo: (_, __, callback) => callback(isBusy ? toAnswer(451, '4.3.0 Try again later') : null),
  })
  await createSend(app)()
  const state = await waitForError(app)
  t.match(state, { attempts: 1, is_failed: false, error: /451 4\.3\.0 Try again later/ })
  t.ok(state.delay < 6, `${state.delay} s`)
  t.same(ended, [])
  isBusy = false
  await retryNow(app)
  await waitUntilEmpty(app)
  t.same((await mailbox.read()).map(getRecipient).sort(), [RECIPIENT, 'other@example.com'])

  isBusy = true
  await createSend(app)()
  t.match(await waitForError(app), { is_failed: false })
  const ageWaiting = () =>
    app.database.run(
      `update work set created_at = now() - interval '23 hours', attempts = 9, next_attempt_at = now(), error = null
       where ${WAITING} returning id`,
    )
  await waitUntil(async () => (await ageWaiting()).length > 0)
  await createSend(app)('other@example.com')
  t.match(
    await waitForError(app),
    { attempts: 10, is_failed: true, error: /451/ },
    'it is given up after 24 hours',
  )
})

t.test('mails that wait follow when a server that was out of reach takes one', async (t) => {
  let isDown = true
  const { app, mailbox } = await start(t, {
    onConnect: (_, callback) => callback(isDown ? toAnswer(421, '4.3.2 Shutting down') : null),
  })
  const waiting = Array.from({ length: 5 }, (_, i) => `${i}@example.com`)
  for (const recipient of waiting) await createSend(app)(recipient)
  const delay = `update work set next_attempt_at = now() + interval '1 hour' where ${WAITING}`
  await waitUntil(async () => {
    await app.database.run(delay)
    return (await readStates(app)).every(({ delay }) => delay > 1_000)
  })
  isDown = false
  await createSend(app)()
  await waitUntilEmpty(app)
  t.same((await mailbox.read()).map(getRecipient).sort(), [...waiting, RECIPIENT])
})

t.test(
  'a mail that the server refuses for good fails at once, a refused sender is tried again',
  async (t) => {
    let isSenderRefused = false
    const { app, ended } = await start(t, {
      onMailFrom: (_, __, callback) =>
        callback(isSenderRefused ? toAnswer(550, 'Sender not verified') : null),
      onRcptTo({ address }, _, callback) {
        callback(address.startsWith('rcpt') ? toAnswer(550, '5.1.1 No such user') : null)
      },
      onData(stream, session, callback) {
        stream.resume().on('end', () => {
          const [to] = session.envelope.rcptTo
          callback(to?.address.startsWith('data') ? toAnswer(554, '5.7.1 Refused') : null)
        })
      },
    })
    for (const recipient of ['rcpt@example.com', 'data@example.com', RECIPIENT])
      await createSend(app)(recipient)
    await waitUntil(() => ended.length === 3)
    await waitUntil(async () => (await readStates(app)).length === 2)
    t.match(await readStates(app), [
      { recipient: 'rcpt@example.com', attempts: 1, is_failed: true, error: /550 5\.1\.1 No such user/ },
      { recipient: 'data@example.com', attempts: 1, is_failed: true, error: /554 5\.7\.1 Refused/ },
    ])
    await waitUntil(
      () => app.app.work.getState('mail')?.failed === 2 && app.app.work.getState('mail')?.waiting === 0,
    )
    t.match(app.app.work.getState('mail'), { oldest_ms: null })
    // A mistake of the settings.
    isSenderRefused = true
    await app.database.run(`delete from work where kind = 'mail'`)
    await createSend(app)()
    t.match(await waitForError(app), { attempts: 1, is_failed: false, error: /Sender not verified/ })
  },
)

t.test('a server that closes the connection within a mail gets it again', async (t) => {
  let isBroken = true
  const received: string[] = []
  const { app, mailbox } = await start(t, {
    onData(stream, session, callback) {
      if (isBroken) {
        for (const connection of mailbox.server.connections) connection._socket.destroy()
        return
      }
      stream.resume().on('end', () => {
        received.push(session.envelope.rcptTo[0]?.address ?? '')
        callback()
      })
    },
  })
  await createSend(app)()
  t.match(await waitForError(app), { attempts: 1, is_failed: false })
  isBroken = false
  await retryNow(app)
  await waitUntilEmpty(app)
  t.same(received.sort(), [RECIPIENT, 'other@example.com'])
})

t.test('a server that never answers delays no request, and gets five connections at a time', async (t) => {
  const sockets = new Set<Socket>()
  let most = 0
  const server = createServer((socket) => {
    sockets.add(socket)
    most = Math.max(most, sockets.size)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
  })
  const port = await listen(server)
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const app = await testApp(t, { MAIL_URL: `smtp://127.0.0.1:${port}`, MAIL_FROM: 'accounts@example.com' })
  for (let i = 0; i < 20; i++) await createSend(app)(`${i}@example.com`)
  await waitUntil(() => most === 5)
  const [first] = await readStates(app)
  t.equal(first?.attempts, 1)
  t.ok(first && first.delay > 60, 'the claim lasts longer than an attempt')
  t.equal((await app.anybody.post('/password-resets', { email: RECIPIENT })).status, 201)
  t.equal((await app.admin.get('/users')).status, 200)
  t.equal((await app.anybody.get('/readyz')).status, 200)
  t.same(new Set((await readStates(app)).map(({ error }) => error)), new Set([null]), 'no attempt has ended')
  t.equal(most, 5)
  // Of the 21, the worker deletes the one that no user gets, once an attempt has ended.
  await waitUntil(() => Number(app.app.work.getState('mail')?.waiting) >= 20)
})

t.test('two apps on one database send each mail once, without headers from its values', async (t) => {
  const { app: first, mailbox } = await start(t)
  const second = await testApp(t, mailbox.settings, { database: first.database })
  const COUNT = 100
  const [send, sendToo] = [createSend(first), createSend(second)]
  await Promise.all(
    Array.from({ length: COUNT }, (_, i) => (i % 2 === 0 ? send : sendToo)(`${i}@example.com`)),
  )
  await waitUntilEmpty(first)
  const mails = await mailbox.read()
  t.equal(mails.length, COUNT)
  t.equal(new Set(mails.map(({ messageId }) => messageId)).size, COUNT)
  t.equal(new Set(mails.map(getRecipient)).size, COUNT)

  const name = 'Eve\r\nBcc: victim@example.com\r\n\r\n<script>alert(1)</script>'
  const email = 'eve@example.com'
  await first.database.run(
    'update users set name = $1, email = $2, email_verified_at = now() where id = $3',
    [name, email, first.adminId],
  )
  const values = { key: 'x\r\nBcc: victim@example.com', time: 'today' }
  await send(email, { template: 'api-key-created', values })
  const mail = await mailbox.waitFor({ to: email })
  t.same(listHeaders(mail).sort(), mails[0] && listHeaders(mails[0]).sort())
  t.match(mail.text, /^Hello Eve Bcc: victim@example\.com <script>alert\(1\)<\/script>,\n/)
  t.notMatch(mail.html, '<script>')
})

t.test('an address is one address, whatever it contains', async (t) => {
  const envelopes: string[][] = []
  const { app } = await start(t, {
    onData(stream, { envelope }, callback) {
      envelopes.push(envelope.rcptTo.map(({ address }) => address))
      stream.resume().on('end', () => callback())
    },
  })
  const addresses = ["o'brien+x@example.com", '"a,b"@example.com', 'jürgen@example.com', 'a@münchen.example']
  const injected = 'a@example.com\r\nRCPT TO:<b@x.y>'
  const several = ['a@example.com>, <b@example.com', 'a@example.com, b@example.com', injected]
  for (const address of [...addresses, ...several]) await createSend(app)(address)
  await waitUntil(
    async () =>
      app.app.work.getState('mail')?.waiting === 0 &&
      app.app.work.getState('mail')?.failed === several.length,
  )
  t.same(envelopes.flat().sort(), [...addresses].sort())
  t.ok(envelopes.every(({ length }) => length === 1))
  t.same(
    (await readStates(app)).map(({ recipient }) => recipient),
    several,
    'the server refuses them',
  )
})
