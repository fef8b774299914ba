/** A write may refer only to rows that the caller may read; other rows are 422, as rows that do not exist. */
import { type AnyPgColumn, pgTable, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { resources } from '../../../../src/resources.ts'
import { CALLER } from '../../../api/src/rules/rules.ts'
import { exampleId, Nullable, Text } from '../../../api/src/schemas/types.ts'
import { common, text } from '../../../database/src/columns.ts'
import { users } from '../../../database/src/user-tables.ts'
import { type Client, type Reply, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { stopEventWork } from '../../../testing/helpers/events.ts'
import { createKeyHeader, getViolations } from '../../../testing/helpers/replies.ts'
import { createTable, insertRows } from '../../../testing/helpers/rows.ts'
import { overhear } from '../../../testing/helpers/statements.ts'
import { define } from './adopted.ts'

const to = (column: AnyPgColumn) => uuid().references(() => column)
const patients = pgTable('patients', { ...common(), user_id: to(users.id).notNull() })
const rooms = pgTable('rooms', { ...common(), status: text().notNull() })
const appointments = pgTable('appointments', {
  ...common(),
  patient_id: to(patients.id).notNull(),
  room_id: to(rooms.id),
  booked_by: to(users.id).notNull(),
  referred_by: to(users.id),
})
const belowPatients = (name: string) => pgTable(name, { ...common(), patient_id: to(patients.id).notNull() })
const [visits, inquiries] = [belowPatients('visits'), belowPatients('inquiries')]

const Reference = Text({ format: 'uuid', examples: [exampleId] })

const own = [{ user_id: CALLER }] as const
const all = { admin: true, manager: true, member: true } as const
const ownOnly = { admin: true, member: own } as const
const writable = { create: all, replace: all, update: all, remove: all } as const

const ofPatient = { parent: { to: 'patients', member: 'patient_id' }, access: { list: all, create: all } }
const below = { fields: {}, readOnly: { patient_id: Reference } }
const bookings = {
  patient_id: Reference,
  room_id: Nullable(Reference),
  booked_by: Reference,
  referred_by: Nullable(Reference),
}

const clinic = [
  define(
    { name: 'patients', singular: 'Patient', table: patients, fields: { user_id: Reference } },
    { access: { list: ownOnly, read: ownOnly, remove: ownOnly } },
  ),
  // Without an operation that reads one row.
  define(
    { name: 'rooms', singular: 'Room', table: rooms, fields: { status: Text({ examples: ['open'] }) } },
    { verbs: ['list'], access: { list: { admin: true, member: [{ status: 'open' }] } } },
  ),
  define(
    { name: 'appointments', singular: 'Appointment', table: appointments, fields: bookings },
    { access: { list: all, read: all, ...writable }, uncheckedReferences: ['referred_by'] },
  ),
  define({ name: 'visits', singular: 'Visit', table: visits, ...below }, ofPatient),
  define(
    { name: 'inquiries', singular: 'Inquiry', table: inquiries, ...below },
    { ...ofPatient, uncheckedReferences: ['patient_id'] },
  ),
]

const { database, take } = overhear(await testDatabase(t))
for (const table of [patients, rooms, appointments, visits, inquiries]) await createTable(database, table)
const { admin, app, person } = await testApp(t, {}, { database, resources: [...resources, ...clinic] })
await stopEventWork(app)

const one = async (table: string, values: Record<string, string>): Promise<string> =>
  (await insertRows(database, table, [values]))[0] ?? ''
const [ada, bob, manager] = [await person('member'), await person('member'), await person('manager')]
const patientOfAda = await one('patients', { user_id: ada.id })
const patientOfBob = await one('patients', { user_id: bob.id })
const openRoom = await one('rooms', { status: 'open' })
const closedRoom = await one('rooms', { status: 'closed' })
const ofAda = { patient_id: patientOfAda, booked_by: ada.id }

/** Returns an error without what differs from request to request. */
const getError = ({ status, body }: Reply) => {
  const { request_id: _, ...error } = body.error
  return { status, ...error }
}

t.test('a reference to a row that the caller may not read is one to a row that does not exist', async (t) => {
  const created = await ada.client.post('/appointments', ofAda)
  t.equal(created.status, 201, created.text)
  const path = `/appointments/${created.body.data.id}`
  const writes: [string, (by: Client, body: object) => Promise<Reply>][] = [
    ['POST', (by, body) => by.post('/appointments', { ...ofAda, ...body })],
    ['POST with a key', (by, body) => by.post('/appointments', { ...ofAda, ...body }, createKeyHeader())],
    ['PUT', (by, body) => by.put(path, { ...ofAda, ...body })],
    ['PATCH', (by, body) => by.patch(path, body)],
  ]
  for (const [name, write] of writes) {
    for (const [field, hidden] of [
      ['patient_id', patientOfBob],
      ['room_id', closedRoom],
      ['booked_by', bob.id],
    ] as const) {
      const refused = await write(ada.client, { [field]: hidden })
      t.equal(refused.status, 422, `${name} ${field}`)
      t.same(getViolations(refused), [`${field} NOT_FOUND`])
      t.same(getError(refused), getError(await write(ada.client, { [field]: UNKNOWN_ID })))
    }
    t.ok((await write(ada.client, { room_id: openRoom })).status < 300, `${name} to an open room`)
    t.ok((await write(admin, { patient_id: patientOfBob })).status < 300, `${name} of an admin`)
    t.equal((await admin.patch(path, ofAda)).status, 200)
  }
  const post = async (by: Client, body: object) => getViolations(await by.post('/appointments', body))
  t.same(await post(ada.client, { patient_id: patientOfBob, booked_by: bob.id }), [
    'booked_by NOT_FOUND',
    'patient_id NOT_FOUND',
  ])
  t.same(await post(manager.client, { ...ofAda, booked_by: manager.id }), ['patient_id NOT_FOUND'])
  const typed = { type: 'appointments', attributes: { ...ofAda, patient_id: patientOfBob } }
  t.same(getViolations(await ada.client.post('/v2/appointments', { data: typed })), [
    'data.attributes.patient_id NOT_FOUND',
  ])
})

t.test('a reference that a definition names as unchecked only has to exist', async (t) => {
  const created = await ada.client.post('/appointments', { ...ofAda, referred_by: bob.id })
  t.equal(created.status, 201, created.text)
  const missing = await ada.client.post('/appointments', { ...ofAda, referred_by: UNKNOWN_ID })
  t.same(getViolations(missing), ['referred_by NOT_FOUND'])
})

t.test('nothing is created below a parent that the caller may not read', async (t) => {
  const headers = { 'idempotency-key': 'visit' }
  for (const [by, patient, status, name = 'visits', more = {}] of [
    [ada.client, patientOfAda, 201],
    [ada.client, patientOfBob, 403],
    [ada.client, patientOfBob, 403, 'visits', headers],
    [ada.client, UNKNOWN_ID, 404],
    [admin, patientOfBob, 201],
    [admin, UNKNOWN_ID, 404],
    [ada.client, patientOfBob, 201, 'inquiries'],
  ] as const) {
    t.equal((await by.post(`/patients/${patient}/${name}`, {}, more)).status, status)
  }
  t.equal((await ada.client.get(`/patients/${patientOfBob}/visits`)).status, 200, 'rules of rows decide')
})

t.test('a reference that a write does not change is not checked again', async (t) => {
  const { id } = (await admin.post('/appointments', { ...ofAda, patient_id: patientOfBob })).body.data
  const path = `/appointments/${id}`
  const { data } = (await ada.client.get(path)).body
  t.equal((await ada.client.put(path, { ...data, room_id: openRoom })).status, 200)
  t.equal((await ada.client.patch(path, { patient_id: patientOfBob })).status, 200)
})

t.test('the owner of a row can delete it, since others cannot refer to it', async (t) => {
  const patient = await one('patients', { user_id: bob.id })
  await ada.client.post('/appointments', { ...ofAda, patient_id: patient })
  t.equal((await bob.client.delete(`/patients/${patient}`)).status, 204)
})

t.test(
  'a creation runs one statement if the role or the caller decides, a change a transaction',
  async (t) => {
    const { id } = (await admin.post('/appointments', ofAda)).body.data
    const path = `/appointments/${id}`
    const count = async (write: () => Promise<Reply>) => {
      await write()
      take()
      const reply = await write()
      t.ok(reply.status < 300, reply.text)
      return take().statements.length
    }
    t.equal(await count(() => admin.post('/appointments', { ...ofAda, room_id: closedRoom })), 1)
    t.equal(
      await count(() => admin.patch(path, { room_id: null })),
      3,
      'begin, lock, commit: nothing changes',
    )
    let target = 0
    t.equal(
      await count(() => admin.patch(path, { room_id: [null, openRoom][target++ % 2] })),
      4,
      'begin, lock, update, commit',
    )
    t.equal(await count(() => ada.client.patch(path, { booked_by: ada.id })), 3)
    t.equal(await count(() => ada.client.post('/appointments', ofAda)), 4, 'begin, check, insert, commit')
  },
)
