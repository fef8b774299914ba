/** The rules of the clinic, on a server in a process of its own: appointments, invoices, mails, the job, the report. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { SMTPServer } from 'smtp-server'
import t from 'tap'
import { ADMIN_KEY, createClient, type Json } from '../helpers/app.ts'
import { createServerSettings, startModule, startServer } from '../helpers/process.ts'
import { getViolations } from '../helpers/replies.ts'
import { waitUntil } from '../helpers/time.ts'

t.test('the clinic', async (t) => {
  const mails: string[] = []
  const smtp = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onData(stream, _session, done) {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () => {
        mails.push(Buffer.concat(chunks).toString())
        done()
      })
    },
  })
  smtp.listen(0, '127.0.0.1')
  await once(smtp.server, 'listening')
  t.teardown(() => smtp.close())
  // A server that listens has an address with a port.
  const { port } = smtp.server.address() as AddressInfo

  const settings = {
    ...(await createServerSettings(t)),
    ADMIN_API_KEY: ADMIN_KEY,
    SMTP_URL: `smtp://127.0.0.1:${port}`,
  }
  const { url } = await startServer(t, settings)
  const admin = createClient(url, { 'x-api-key': ADMIN_KEY })

  const create = async (path: string, body: Json): Promise<Json> => {
    const reply = await admin.post(path, body)
    if (reply.status !== 201) throw new Error(reply.text)
    return reply.body.data
  }

  /** Creates a user who is signed in. */
  async function signIn(role: string, name: string) {
    const [email, password] = [`${name}@example.com`, 'a-long-password-for-tests']
    const user = await create('/users', { name, email, password, role })
    const { body } = await createClient(url, {}).post('/tokens', { grant_type: 'password', email, password })
    return { id: user.id, client: createClient(url, { authorization: `Bearer ${body.data.access_token}` }) }
  }

  const [ada, bob, carl, doris] = [
    await signIn('member', 'ada'),
    await signIn('member', 'bob'),
    await signIn('practitioner', 'carl'),
    await signIn('practitioner', 'doris'),
  ]
  const newPatient = ({ id }: { id: string }, name: string) =>
    create('/patients', { user_id: id, name, email: `${name}@example.com`, phone: '555 0100' })
  const newPractitioner = ({ id }: { id: string }, name: string) =>
    create('/practitioners', { user_id: id, name, specialty: 'general' })
  const [patientAda, patientBob] = [await newPatient(ada, 'ada'), await newPatient(bob, 'bob')]
  const [drCarl, drDoris] = [await newPractitioner(carl, 'carl'), await newPractitioner(doris, 'doris')]
  const [roomA, roomB] = [
    await create('/rooms', { name: 'A', floor: 0 }),
    await create('/rooms', { name: 'B', floor: 1 }),
  ]

  const body = (hour: number, more: Json = {}): Json => ({
    patient_id: patientAda.id,
    practitioner_id: drCarl.id,
    room_id: roomA.id,
    starts_at: new Date(Date.UTC(2099, 0, 5, hour)).toISOString(),
    ends_at: new Date(Date.UTC(2099, 0, 5, hour + 1)).toISOString(),
    price_amount: '40.00',
    ...more,
  })
  const request = async (hour: number, more?: Json, by = ada): Promise<Json> => {
    const reply = await by.client.post('/appointments', body(hour, more))
    if (reply.status !== 201) throw new Error(reply.text)
    return reply.body.data
  }
  const confirm = (id: string, by = carl) => by.client.post(`/appointments/${id}/confirm`, {})

  t.test('appointments of a room or a practitioner do not overlap, and end after they start', async (t) => {
    const { id } = await request(9)
    for (const [more, field] of [
      [{ practitioner_id: drDoris.id }, 'room_id'],
      [{ room_id: roomB.id }, 'practitioner_id'],
    ] as const) {
      const reply = await ada.client.post('/appointments', body(9, more))
      t.equal(reply.status, 409)
      t.same(getViolations(reply), ['ends_at OVERLAP', `${field} OVERLAP`, 'starts_at OVERLAP'].sort())
    }
    t.equal((await ada.client.patch(`/appointments/${id}`, { status: 'canceled' })).status, 200)
    await request(9)
    const ends_at = body(11).starts_at
    t.same(getViolations(await ada.client.post('/appointments', body(11, { ends_at }))), [
      'ends_at INVALID_VALUE',
    ])
  })

  t.test('patients and practitioners read only their own appointments', async (t) => {
    const { id, user_id, practitioner_user_id } = await request(12)
    t.same({ user_id, practitioner_user_id }, { user_id: ada.id, practitioner_user_id: carl.id })
    for (const [by, status] of [
      [ada, 200],
      [carl, 200],
      [bob, 403],
      [doris, 403],
    ] as const)
      t.equal((await by.client.get(`/appointments/${id}`)).status, status)
    t.equal((await bob.client.get('/appointments')).body.data.length, 0)
    t.equal((await doris.client.get('/appointments')).body.data.length, 0)
    t.same(getViolations(await bob.client.post('/appointments', body(13))), ['patient_id NOT_FOUND'])
  })

  t.test('a confirmation issues one invoice and sends one mail', async (t) => {
    const { id } = await request(14)
    t.equal((await confirm(id, ada)).status, 403)
    t.equal((await confirm(id, doris)).status, 403)
    const confirmed = await confirm(id)
    t.equal(confirmed.status, 201, confirmed.text)
    t.equal(confirmed.body.data.status, 'confirmed')
    t.equal((await confirm(id)).status, 409)
    const { data } = (await ada.client.get(`/invoices?appointment_id=${id}`)).body
    t.match(data, [{ user_id: ada.id, amount: '40.00', status: 'issued' }])
    t.equal((await bob.client.get(`/invoices/${data[0].id}`)).status, 403)
    t.equal((await admin.delete(`/users/${ada.id}`)).status, 409)
    await waitUntil(() => mails.length > 0)
    t.equal(mails.length, 1)
    t.match(mails[0], /^To: ada@example\.com\r$/m)
  })

  t.test('patients see no drafts', async (t) => {
    const draft = { user_id: ada.id, appointment_id: (await request(15)).id, number: 'D-1', amount: '1.00' }
    const { id } = await create('/invoices', draft)
    t.equal((await ada.client.get(`/invoices/${id}`)).status, 403)
    t.equal((await admin.patch(`/invoices/${id}`, { status: 'issued' })).status, 200)
    t.equal((await ada.client.get(`/invoices/${id}`)).status, 200)
  })

  t.test('the report shows what the caller may read', async (t) => {
    const { id } = await request(16, { patient_id: patientBob.id, price_amount: '2.50' }, bob)
    t.equal((await confirm(id)).status, 201)
    const row = { practitioner_id: drCarl.id, month: '2099-01' }
    const report = async (by: typeof admin) => (await by.get('/reports/revenue')).body
    t.same(await report(admin), [{ ...row, invoices: 3, amount: '43.50' }])
    t.same(await report(ada.client), [{ ...row, invoices: 2, amount: '41.00' }])
    t.same(await report(bob.client), [{ ...row, invoices: 1, amount: '2.50' }])
    t.equal((await carl.client.get('/reports/revenue')).status, 403)
  })

  t.test('the job cancels appointments that were never confirmed', async (t) => {
    const past = { starts_at: '2020-01-06T09:00:00.000Z', ends_at: '2020-01-06T10:00:00.000Z' }
    const [{ id }, { id: next }] = [await request(0, past), await request(17)]
    const { output, ended } = startModule(t, 'cli.ts', settings, ['jobs', 'run', 'cancel-unconfirmed'])
    t.same(await ended, { code: 0, signal: null }, output.err)
    t.equal((await admin.get(`/appointments/${id}`)).body.data.status, 'canceled')
    t.equal((await admin.get(`/appointments/${next}`)).body.data.status, 'requested')
    await waitUntil(async () =>
      (await admin.get('/events?limit=100')).body.data.some(
        ({ type, resource_id }: Json) => type === 'appointments.updated' && resource_id === id,
      ),
    )
  })

  t.test('the documents have the operations of the clinic, and none of the shop', async (t) => {
    const { body: document } = await admin.get('/openapi/v1.json')
    const paths = Object.keys(document.paths)
    for (const path of ['/appointments/{id}/confirm', '/reports/revenue', '/invoices'])
      t.ok(
        paths.some((each) => each.endsWith(path)),
        path,
      )
    t.notMatch(JSON.stringify(document), /\b(orders|posts|products|INSUFFICIENT_STOCK)\b/)
  })
})
