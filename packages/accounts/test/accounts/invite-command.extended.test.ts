/** Commands and links: invitations by `users invite`, which a running server sends, and changes that void links. */
import t from 'tap'
import { NEW_PASSWORD, PASSWORD, readLinkRows } from '../../../testing/helpers/accounts.ts'
import { APP_SECRET, testApp } from '../../../testing/helpers/app.ts'
import {
  createMigratedDatabase,
  openAt,
  runCommand,
  withDatabaseAt,
} from '../../../testing/helpers/command.ts'
import { getLink, startSmtpServer } from '../../../testing/helpers/mails.ts'
import { createLink } from '../../src/accounts/links.ts'

t.test('users create sends no invitation, and changes of the password or status void links', async (t) => {
  const settings = await createMigratedDatabase(t)
  const email = 'ada@example.org'
  const run = async (command: string, input = '') => {
    const { code, err } = await runCommand(t, command, settings, `${input}\n`)
    t.equal(code, 0, err)
    t.same(await withDatabaseAt(settings, (opened) => opened.run('select * from account_links')), [], command)
  }
  const request = () =>
    withDatabaseAt(settings, (opened) =>
      createLink(opened, { kind: 'reset', subject: email, email, lifetimeMs: 60_000 }),
    )
  await run(`users create --email ${email}`, PASSWORD)
  await request()
  await run(`users set-password ${email}`, NEW_PASSWORD)
  await request()
  await run(`users set-status ${email} --status inactive`)
  await run('users create --email grace@example.org')
})

t.test('users invite creates or invites a user, and a running server sends the mail', async (t) => {
  const place = { ...(await createMigratedDatabase(t)), APP_SECRET }
  const run = (command: string, settings = {}) =>
    runCommand(t, `users invite ${command}`, { ...place, ...settings })
  const email = 'grace@example.org'

  const created = await run(`${email.toUpperCase()} --name Grace --role manager --json`)
  t.equal(created.code, 0, created.err)
  t.match(JSON.parse(created.out), { email, role: 'manager', created: true })
  const again = await run(email)
  t.match(again.out, /^Invited grace@example\.org with id .*; a running server sends the mail\n$/)
  t.equal((await run('alan.turing@example.org')).code, 0)

  await withDatabaseAt(place, async (opened) => {
    t.equal((await readLinkRows(opened, email)).length, 2)
    const columns = 'name, role, email_verified_at'
    const [user] = await opened.run(`select ${columns} from users where email like 'alan%'`)
    t.match(user, { name: 'alan.turing', role: 'member', email_verified_at: /^\d/ })
    await opened.run(`update users set status = 'inactive' where email like 'alan%'`)
  })
  const refused: [command: string, code: number, message: RegExp, settings?: object][] = [
    [`${email} --role admin`, 2, /--name and --role are for a new user/],
    ['alan.turing@example.org', 1, /alan\.turing@example\.org is inactive/],
    ['no-address', 2, /email/],
    ['a@example.org --role king', 2, /--role/],
    [email, 2, /MAIL_URL is not set/, { NODE_ENV: 'production', INSECURE_HTTP: 'true' }],
  ]
  for (const [command, code, message, settings] of refused) {
    const result = await run(command, settings)
    t.equal(result.code, code, `${command}: ${result.err}`)
    t.match(result.err, message)
  }
  for (const code of [0, 0, 0, 1]) t.equal((await run(email)).code, code, 'five')

  const opened = await openAt(place)
  t.teardown(() => opened.close())
  const mailbox = await startSmtpServer(t)
  const server = await testApp(t, mailbox.settings, { database: opened })
  const { url, id, token } = getLink(await mailbox.waitFor({ to: email }))
  t.equal(url.pathname, '/account/invite')
  const completion = { token, password: NEW_PASSWORD }
  t.equal((await server.anybody.patch(`/password-resets/${id}`, completion)).status, 200)
})
