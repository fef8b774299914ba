/** A server that is killed (kill -9) under requests for mails sends each one that it confirmed, and none that was not requested. */
import t from 'tap'
import { openDatabase } from '../../drizzle/client/index.ts'
import { newId } from '../../lib/ids.ts'
import { createClient } from '../helpers/app.ts'
import { SERVER, testDatabaseUrl } from '../helpers/database.ts'
import { getLink, getRecipient, startSmtpServer } from '../helpers/mails.ts'
import { createServerSettings, startServer } from '../helpers/process.ts'
import { waitUntil } from '../helpers/time.ts'

const KILLS = 20
const REQUESTS = 500
const WRITERS = 4
/** Confirmed before a kill; the next ones are in progress then. */
const CONFIRMED_PER_ROUND = 20
/** More than are requested in all rounds. */
const USERS = 5_000

const skip = SERVER === undefined && 'DATABASE_URL is not set'

t.test('kill -9 under requests for mails', { skip }, async (t) => {
  const { url = '' } = await testDatabaseUrl(t)
  const database = await openDatabase({ url })
  t.teardown(() => database.close())
  const mailbox = await startSmtpServer(t)
  const settings = { ...(await createServerSettings(t)), ...mailbox.settings, DATABASE_URL: url }
  const toAddress = (i: number) => `user${i}@example.com`
  const ids = Array.from({ length: USERS }, newId)
  await database.run(
    `insert into users (id, name, email, search)
     select id, 'User', 'user' || (position - 1) || '@example.com', '' from unnest($1::uuid[]) with ordinality as ids (id, position)`,
    [ids],
  )
  const confirmed: string[] = []
  let requested = 0

  /** Requests resets for one address after the other, until the server is gone or `isEnough`. */
  const request = async (base: string, isEnough: () => boolean) => {
    const client = createClient(base, {})
    while (!isEnough()) {
      const email = toAddress(requested++)
      const reply = await client.post('/password-resets', { email }).catch(() => undefined)
      if (!reply) return
      if (reply.status === 201) confirmed.push(email)
      else t.equal(reply.status, 503, reply.text)
    }
  }
  const requestAll = (base: string, isEnough: () => boolean) =>
    Promise.all(Array.from({ length: WRITERS }, () => request(base, isEnough)))

  for (let round = 0; round < KILLS; round++) {
    const server = await startServer(t, settings)
    const wanted = confirmed.length + CONFIRMED_PER_ROUND
    const requests = requestAll(server.url, () => false)
    await waitUntil(() => confirmed.length >= wanted)
    server.child.kill('SIGKILL')
    await Promise.all([server.ended, requests])
  }
  const sentByKilled = (await mailbox.read()).length
  // The claims of the killed servers have ended.
  await database.run('update mails set next_attempt_at = now()')
  const { url: last } = await startServer(t, settings)
  await requestAll(last, () => requested >= REQUESTS)
  await waitUntil(async () => (await database.run('select id from mails')).length === 0)

  const mails = await mailbox.read()
  const received = new Set(mails.map(getRecipient))
  t.ok(requested >= REQUESTS, `${requested} were requested, ${confirmed.length} confirmed`)
  t.ok(sentByKilled > 0 && sentByKilled < confirmed.length, `${sentByKilled} were sent before the last kill`)
  t.same(
    confirmed.filter((email) => !received.has(email)),
    [],
    'each that was confirmed was sent',
  )
  const all = new Set(Array.from({ length: requested }, (_, i) => toAddress(i)))
  t.same(
    [...received].filter((email) => !all.has(email)),
    [],
    'none was sent that was not requested',
  )
  const links = await database.run('select id, email from account_links')
  const emails = new Map(links.map(({ id, email }) => [id, email]))
  t.ok(
    mails.every((mail) => emails.get(getLink(mail).id) === getRecipient(mail)),
    'each has the link of a request that was committed',
  )
  t.equal(links.length, received.size, 'each request that was committed has its mail')
  t.comment(`${mails.length - received.size} of ${mails.length} mails were sent again`)
})
