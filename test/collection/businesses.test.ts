/** A shop with suppliers and a clinic show each caller what their rules allow, whichever way the caller asks. */
import t, { type Test } from 'tap'
import type { Client, Json, Person } from '../helpers/app.ts'
import { getEvents, openStream } from '../helpers/events.ts'
import { getIds } from '../helpers/replies.ts'
import { createEndpoint, startReceiver } from '../helpers/webhooks.ts'
import { openBusinesses } from './businesses.ts'

const { admin, app, base, person } = await openBusinesses(t)

async function create(client: Client, path: string, body: object): Promise<Json> {
  const reply = await client.post(path, body)
  if (reply.status !== 201) throw new Error(`${path}: ${reply.text}`)
  return reply.body.data
}

interface Row {
  id: string
  [name: string]: string | number
}

interface Ways {
  path: string
  /** All rows, oldest first. */
  rows: readonly Row[]
  /** A field that lists sort by. */
  sort: string
  /** Filters and searches that all rows meet. */
  filters: readonly string[]
}

/**
 * Checks that each way of reading has the rows that a caller may see, and no others.
 * @param owned the rows whose events the caller reads: not those that a rule permits to all
 */
async function checkReads(
  t: Test,
  { client }: Person,
  { path, rows, sort, filters }: Ways,
  visible: readonly Row[],
  owned = visible,
) {
  const expected = visible.map(({ id }) => id).sort()
  const type = path.slice(1)
  const lists = ['', `?sort=${sort}`, `?sort=-${sort}`, '?fields=id', ...filters.map((each) => `?${each}`)]
  for (const query of lists) {
    const url = `${path}${query}${query ? '&' : '?'}limit=50`
    t.same(getIds(await client.get(url)).sort(), expected, url)
    const paged = await client.get(`${url}&page=1`)
    t.same([getIds(paged).sort(), paged.body.pagination.total], [expected, expected.length], `${url}&page=1`)
  }
  for (const accept of ['application/x-ndjson', 'text/csv']) {
    const { text } = await client.get(path, { accept })
    for (const { id } of rows) t.equal(text.includes(id), expected.includes(id), `${path} as ${accept}`)
  }
  await app.events.assignAll()
  const events = await client.get(`/events?type=${type}.created&limit=100`)
  t.same(
    getEvents(events)
      .map(({ resource_id }) => resource_id)
      .sort(),
    owned.map(({ id }) => id).sort(),
    `events of ${path}`,
  )
  for (const row of rows) {
    const { id } = row
    const status = expected.includes(id) ? 200 : 403
    t.equal((await client.get(`${path}/${id}`)).status, status, `${path}/{id}`)
    t.equal(
      getEvents(await client.get(`/events?resource_id=${id}`)).length > 0,
      owned.includes(row),
      'its events',
    )
  }
}

/** Checks that a caller changes the rows of a list, alone and in batches, and no others. */
async function checkWrites(
  t: Test,
  { client }: Person,
  path: string,
  rows: readonly Row[],
  writable: readonly Row[],
  body: object,
) {
  for (const row of rows) {
    const isWritable = writable.includes(row)
    const one = await client.patch(`${path}/${row.id}`, body)
    t.equal(one.status, isWritable ? 200 : 403, `PATCH ${path}/{id}`)
    const operations = [{ method: 'PATCH', path: `${path}/${row.id}`, body }]
    const { status } = await client.post('/batches', { operations })
    t.ok(isWritable ? status === 200 : status === 403 || status === 422, `batch of ${path}: ${status}`)
  }
}

/** Checks that no way of asking has a field or its values. */
async function checkHidden(
  t: Test,
  { client }: Person,
  path: string,
  field: string,
  id: string,
  value: string,
) {
  for (const query of [
    `${field}=${value}`,
    `sort=${field}`,
    `fields=${field}`,
    `${field}_min=1`,
    `${field}_null=true`,
  ]) {
    t.equal((await client.get(`${path}?${query}`)).status, 400, query)
  }
  t.equal((await client.get(`${path}/${id}?fields=${field}`)).status, 400)
  for (const [url, accept] of [
    [path, 'application/json'],
    [path, 'application/x-ndjson'],
    [path, 'text/csv'],
    [`${path}/${id}`, 'application/json'],
    [`/events?resource_id=${id}`, 'application/json'],
    [`${path}?search=${value}`, 'application/json'],
  ] as const) {
    const reply = await client.get(url, { accept })
    t.equal(reply.status, 200, url)
    t.notMatch(reply.text, new RegExp(`\\b(?:${field}|${value})\\b`), `${url} as ${accept}`)
  }
}

t.test(
  'a shop: suppliers change their goods and see what was ordered of them, and members see no costs',
  async (t) => {
    const [ann, ben] = [await person('member'), await person('member')]
    const [customer, other] = [await person('member'), await person('member')]
    const [tea, rum] = [
      await create(admin, '/suppliers', { name: 'Tea' }),
      await create(admin, '/suppliers', { name: 'Rum' }),
    ]
    const agent = await create(admin, '/agents', { supplier_id: tea.id, user_id: ann.id })
    await create(admin, '/agents', { supplier_id: rum.id, user_id: ben.id })
    const goods: Row[] = []
    for (const [supplier, status] of [
      [tea, 'draft'],
      [tea, 'active'],
      [rum, 'draft'],
      [rum, 'active'],
    ] as const)
      goods.push(
        await create(admin, '/goods', { supplier_id: supplier.id, name: 'Bottle', status, cost: 98_765 }),
      )
    const [teaDraft, teaActive, rumDraft, rumActive] = goods
    if (!teaDraft || !teaActive || !rumDraft || !rumActive) throw new Error('There are four goods')

    const filters = ['name=Bottle', 'search=bottl', `supplier_id=${tea.id},${rum.id}`]
    const ways = { path: '/goods', rows: goods, sort: 'name', filters }
    await checkReads(t, ann, ways, [teaDraft, teaActive, rumActive], [teaDraft, teaActive])
    await checkReads(t, ben, ways, [rumDraft, rumActive, teaActive], [rumDraft, rumActive])
    await checkReads(t, customer, ways, [teaActive, rumActive], [])
    await checkWrites(t, ann, '/goods', goods, [teaDraft, teaActive], { name: 'Bottle' })
    await checkWrites(t, customer, '/goods', goods, [], { name: 'Bottle' })
    t.equal((await ann.client.post('/goods', { supplier_id: rum.id, name: 'Mine' })).status, 403)
    t.equal(
      (await ann.client.patch(`/goods/${teaDraft.id}`, { supplier_id: rum.id })).status,
      403,
      'given away',
    )
    for (const each of [ann, customer]) await checkHidden(t, each, '/goods', 'cost', teaActive.id, '98765')
    t.equal((await ann.client.patch(`/goods/${teaDraft.id}`, { cost: 1 })).status, 422)
    t.match((await (await person('manager')).client.get(`/goods/${teaActive.id}`)).body.data, {
      cost: 98_765,
    })

    const purchases: Row[] = []
    const items: Row[] = []
    for (const [buyer, ordered] of [
      [customer, [teaActive, rumActive]],
      [other, [rumActive]],
    ] as const) {
      const purchase = await create(buyer.client, '/purchases', { user_id: buyer.id })
      purchases.push(purchase)
      for (const { id } of ordered)
        items.push(await create(buyer.client, '/items', { purchase_id: purchase.id, good_id: id }))
    }
    t.equal((await ann.client.post('/purchases', { user_id: customer.id })).status, 403)
    const [own, foreign] = purchases
    const [teaItem, rumItem, otherItem] = items
    if (!own || !foreign || !teaItem || !rumItem || !otherItem)
      throw new Error('There are two orders of three items')
    const orders = {
      path: '/purchases',
      rows: purchases,
      sort: 'created_at',
      filters: [`user_id=${customer.id},${other.id}`],
    }
    await checkReads(t, customer, orders, [own])
    await checkReads(t, ann, orders, [own])
    await checkReads(t, ben, orders, purchases)
    const lines = {
      ...{ path: '/items', rows: items, sort: 'quantity' },
      filters: [`purchase_id=${own.id},${foreign.id}`, 'good.status=active'],
    }
    await checkReads(t, customer, lines, [teaItem, rumItem])
    await checkReads(t, ann, lines, [teaItem])
    await checkReads(t, ben, lines, [rumItem, otherItem])
    await checkWrites(t, ann, '/items', items, [], { quantity: 2 })
    await checkWrites(t, customer, '/items', items, [teaItem, rumItem], { quantity: 2 })
    t.equal((await other.client.post('/items', { purchase_id: own.id, good_id: teaActive.id })).status, 403)

    const included = await ann.client.get(`/purchases/${own.id}?include=items`)
    t.same(
      included.body.data.items.map(({ id }: Json) => id),
      [teaItem.id],
      'an order includes the items of the supplier',
    )
    await admin.patch(`/goods/${rumActive.id}`, { status: 'draft' })
    const withGoods = await customer.client.get('/items?include=good&limit=50')
    t.same(
      withGoods.body.data.map(({ id, good }: Json) => [id, good && Object.hasOwn(good, 'cost')]).sort(),
      [
        [teaItem.id, false],
        [rumItem.id, null],
      ].sort(),
    )
    t.same(
      getIds(await customer.client.get('/items?good.status=draft')),
      [],
      'a filter by a row that is hidden',
    )

    const stream = await openStream(
      t,
      { app, base },
      {
        headers: { 'x-api-key': ann.key },
        path: '/events?type=goods.*',
      },
    )
    await admin.patch(`/goods/${rumDraft.id}`, { name: 'Hidden' })
    await admin.patch(`/goods/${teaDraft.id}`, { cost: 4_321 })
    await app.events.assignAll()
    const [event] = await stream.waitForEvents(1)
    t.equal(event?.data.resource_id, teaDraft.id)
    t.notMatch(JSON.stringify(event), /cost|4321|98765/)

    t.equal((await admin.delete(`/agents/${agent.id}`)).status, 204)
    await checkReads(t, ann, { ...ways, filters: [] }, [teaActive], [])
    await checkReads(t, ann, orders, [])
    await checkReads(t, ann, lines, [])
  },
)

t.test(
  'a clinic: practitioners see their patients, and invoices are those of patients and of the staff',
  async (t) => {
    const [pat, max] = [await person('member'), await person('member')]
    const [doctor, nurse, clerk] = [await person('member'), await person('member'), await person('manager')]
    const [north, south] = [
      await create(admin, '/clinics', { name: 'North' }),
      await create(admin, '/clinics', { name: 'South' }),
    ]
    await create(admin, '/staff', { clinic_id: north.id, user_id: nurse.id })
    const employment = await create(admin, '/staff', { clinic_id: south.id, user_id: clerk.id })
    const patients: Row[] = []
    for (const { id: user_id } of [pat, max])
      patients.push(await create(admin, '/patients', { user_id, name: 'Patient', insurance: 'SECRET7' }))
    const [first, second] = patients
    if (!first || !second) throw new Error('There are two patients')
    const appointment = await create(admin, '/appointments', {
      patient_id: first.id,
      practitioner_id: doctor.id,
    })

    const ways = {
      path: '/patients',
      rows: patients,
      sort: 'name',
      filters: ['name=Patient', 'search=patien'],
    }
    await checkReads(t, doctor, ways, [first])
    await checkReads(t, pat, ways, [first])
    await checkReads(t, max, ways, [second])
    await checkReads(t, nurse, ways, [])
    await checkWrites(t, doctor, '/patients', patients, [first], { name: 'Patient' })
    await checkWrites(t, pat, '/patients', patients, [], { name: 'Patient' })
    for (const each of [doctor, pat])
      await checkHidden(t, each, '/patients', 'insurance', first.id, 'SECRET7')

    const receiver = await startReceiver(t)
    await createEndpoint(clerk.bearer, receiver.url, { event_types: ['invoices.*'] })
    const invoices: Row[] = []
    for (const [clinic, patient] of [
      [north, first],
      [north, second],
      [south, second],
    ] as const)
      invoices.push(
        await create(admin, '/invoices', { clinic_id: clinic.id, patient_id: patient.id, amount: 100 }),
      )
    const [mine, northern, southern] = invoices
    if (!mine || !northern || !southern) throw new Error('There are three invoices')
    const bills = {
      ...{ path: '/invoices', rows: invoices, sort: 'amount' },
      filters: ['amount=100', `patient_id=${first.id},${second.id}`, `clinic_id=${north.id},${south.id}`],
    }
    await checkReads(t, pat, bills, [mine])
    await checkReads(t, max, bills, [northern, southern])
    await checkReads(t, doctor, bills, [])
    await checkReads(t, nurse, bills, [mine, northern])
    await checkReads(t, clerk, bills, [southern])
    await checkWrites(t, nurse, '/invoices', invoices, [mine, northern], { amount: 200 })
    await checkWrites(t, pat, '/invoices', invoices, [], { amount: 200 })
    const foreign = { clinic_id: south.id, patient_id: first.id, amount: 1 }
    t.equal((await nurse.client.post('/invoices', foreign)).status, 403)
    t.equal((await nurse.client.patch(`/invoices/${mine.id}`, { clinic_id: south.id })).status, 403)
    const included = await doctor.client.get(`/patients/${first.id}?include=invoices,appointments`)
    t.same(included.body.data.invoices, [], 'a patient does not bring invoices along')
    t.same(
      included.body.data.appointments.map(({ id }: Json) => id),
      [appointment.id],
    )

    t.same(
      (await receiver.waitFor(1)).map(({ body }) => body.data.resource_id),
      [southern.id],
    )
    const stream = await openStream(
      t,
      { app, base },
      {
        ...{ headers: { 'x-api-key': doctor.key }, path: '/events?type=patients.*' },
      },
    )
    t.equal((await admin.delete(`/appointments/${appointment.id}`)).status, 204)
    t.equal((await admin.delete(`/staff/${employment.id}`)).status, 204)
    await admin.patch(`/patients/${first.id}`, { name: 'After' })
    await admin.patch(`/invoices/${southern.id}`, { amount: 300 })
    await app.events.assignAll()
    await stream.waitForComment()
    t.same(stream.events, [], 'without the appointment, the stream goes on without the patient')
    await checkReads(t, doctor, { ...ways, filters: [] }, [])
    await checkReads(t, clerk, { ...bills, filters: [] }, [])
    t.equal(receiver.received.length, 1, 'nor do webhooks have what the clerk may not read anymore')
  },
)
