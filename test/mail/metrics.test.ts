/** The metrics of mails, and the readiness of a server whose mails are not sent. */
import t from 'tap'
import { testApp } from '../helpers/app.ts'
import { startSmtpServer } from '../helpers/mails.ts'
import { waitUntil } from '../helpers/time.ts'

t.test('metrics count mails that were sent, failed and wait', async (t) => {
  const mailbox = await startSmtpServer(t, {
    onRcptTo({ address }, _, callback) {
      const responseCode = { 'later@example.com': 451, 'never@example.com': 550 }[address]
      callback(responseCode ? Object.assign(new Error('refused'), { responseCode }) : null)
    },
  })
  const { app, anybody, database, adminId } = await testApp(t, {
    ...mailbox.settings,
    METRICS_TOKEN: 'metrics-token-metrics-token',
  })
  const names = ['sent@example.com', 'later@example.com', 'never@example.com']
  for (const recipient of names)
    await app.mail?.enqueue(database, {
      ...{ template: 'password-changed', recipient, userId: adminId, values: { time: 'today' } },
    })
  await database.run(`update mails set created_at = now() - interval '1 hour'`)
  app.outbox.publish()
  await waitUntil(() => app.mail?.getState()?.failed === 1 && app.mail.getState()?.waiting === 1)
  const read = async () =>
    (await anybody.get('/metrics', { authorization: 'Bearer metrics-token-metrics-token' })).text
  const text = await read()
  t.match(text, '\nmails_total{result="sent"} 1\n')
  t.match(text, '\nmails_total{result="failed"} 1\n')
  t.match(text, '\nmail_queue{state="waiting"} 1\n')
  t.match(text, '\nmail_queue{state="failed"} 1\n')
  t.match(text, /\nmail_longest_wait_seconds 36\d\d\.\d+\n/)
  t.equal((await anybody.get('/readyz')).status, 200)
})

t.test('without mail there are no metrics of it', async (t) => {
  const { app } = await testApp(t, {
    ...{ NODE_ENV: 'production', INSECURE_HTTP: 'true', METRICS_TOKEN: 'metrics-token-metrics-token' },
  })
  t.equal(app.mail, undefined)
  t.notMatch(await app.metrics?.metrics(), 'mail_queue')
})
