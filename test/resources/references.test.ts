/** A write may refer only to rows that the caller may read; other rows are 422, as rows that do not exist. */
import { type TProperties, Type } from '@sinclair/typebox'
import { pgTable, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { common, text } from '../../drizzle/columns.ts'
import { users } from '../../drizzle/tables.ts'
import { CALLER } from '../../plugins/access/index.ts'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import { common as commonFields, exampleId, Id, Nullable, Text } from '../../schemas/types.ts'
import { resources } from '../../src/app.ts'
import { type Client, type Reply, testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { SERVER, testDatabase } from '../helpers/database.ts'
import { stopEventWork } from '../helpers/events.ts'
import { createKeyHeader, getViolations } from '../helpers/replies.ts'
import { createTable, insertRows } from '../helpers/rows.ts'
import { overhear } from '../helpers/statements.ts'
import { waitUntil } from '../helpers/time.ts'

const patients = pgTable('patients', {
  ...common(),
  user_id: uuid()
    .notNull()
    .references(() => users.id),
})
const rooms = pgTable('rooms', { ...common(), status: text().notNull() })
const appointments = pgTable('appointments', {
  ...common(),
  patient_id: uuid()
    .notNull()
    .references(() => patients.id),
  room_id: uuid().references(() => rooms.id),
  booked_by: uuid()
    .notNull()
    .references(() => users.id),
  referred_by: uuid().references(() => users.id),
})

const belowPatients = (name: string) =>
  pgTable(name, {
    ...common(),
    patient_id: uuid()
      .notNull()
      .references(() => patients.id),
  })
const [visits, inquiries] = [belowPatients('visits'), belowPatients('inquiries')]

const RoomStatus = Text({ maxLength: 10, examples: ['open'] })
const Reference = Text({ format: 'uuid', examples: [exampleId] })

const define = (
  name: string,
  singular: string,
  table: ResourceDefinition['table'],
  fields: TProperties,
  rest: Partial<ResourceDefinition>,
  parent: TProperties = {},
): ResourceDefinition => ({
  name,
  singular,
  plural: `${singular}s`,
  description: `The ${name}`,
  table,
  schemas: {
    read: Type.Object({ id: Id(), ...parent, ...fields, ...commonFields }, { title: singular }),
    create: Type.Object(fields, { title: `${singular}Create` }),
    change: Type.Object(fields, { title: `${singular}Change` }),
  },
  filters: [],
  sorts: {},
  search: [],
  relations: {},
  access: {},
  ...rest,
})

const own = [{ user_id: CALLER }] as const
const all = { admin: true, manager: true, member: true } as const
const ownOnly = { admin: true, member: own } as const
const writable = { create: all, replace: all, update: all, remove: all } as const

/** Below the path of a patient. */
const ofPatient = { parent: { to: 'patients', member: 'patient_id' }, access: { list: all, create: all } }

const clinic = [
  define(
    'patients',
    'Patient',
    patients,
    { user_id: Reference },
    { access: { list: ownOnly, read: ownOnly, remove: ownOnly } },
  ),
  // Without an operation that reads one row.
  define(
    'rooms',
    'Room',
    rooms,
    { status: RoomStatus },
    { verbs: ['list'], access: { list: { admin: true, member: [{ status: 'open' }] } } },
  ),
  define(
    'appointments',
    'Appointment',
    appointments,
    {
      patient_id: Reference,
      room_id: Nullable(Reference),
      booked_by: Reference,
      referred_by: Nullable(Reference),
    },
    { access: { list: all, read: all, ...writable }, uncheckedReferences: ['referred_by'] },
  ),
  define('visits', 'Visit', visits, {}, { ...ofPatient, plural: 'Visits' }, { patient_id: Reference }),
  define(
    'inquiries',
    'Inquiry',
    inquiries,
    {},
    { ...ofPatient, plural: 'Inquiries', uncheckedReferences: ['patient_id'] },
    { patient_id: Reference },
  ),
]

const { database, take } = overhear(await testDatabase(t))
for (const table of [patients, rooms, appointments, visits, inquiries]) await createTable(database, table)
const { admin, app, person } = await testApp(t, {}, { database, resources: [...resources, ...clinic] })
await stopEventWork(app)

const one = async (table: string, values: Record<string, string>): Promise<string> =>
  (await insertRows(database, table, [values]))[0] ?? ''
const [ada, bob] = [await person('member'), await person('member')]
const manager = await person('manager')
const [patientOfAda, patientOfBob] = [
  await one('patients', { user_id: ada.id }),
  await one('patients', { user_id: bob.id }),
]
const [openRoom, closedRoom] = [
  await one('rooms', { status: 'open' }),
  await one('rooms', { status: 'closed' }),
]
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
    t.equal((await write(ada.client, { room_id: openRoom })).status < 300, true, `${name} to an open room`)
    t.equal((await write(admin, { patient_id: patientOfBob })).status < 300, true, `${name} of an admin`)
    t.equal((await admin.patch(path, ofAda)).status, 200)
  }
  t.same(
    getViolations(await ada.client.post('/appointments', { patient_id: patientOfBob, booked_by: bob.id })),
    ['booked_by NOT_FOUND', 'patient_id NOT_FOUND'],
    'all are reported together',
  )
  const typed = { type: 'appointments', attributes: { ...ofAda, patient_id: patientOfBob } }
  t.same(getViolations(await ada.client.post('/v2/appointments', { data: typed })), [
    'data.attributes.patient_id NOT_FOUND',
  ])
  t.same(
    getViolations(await manager.client.post('/appointments', { ...ofAda, booked_by: manager.id })),
    ['patient_id NOT_FOUND'],
    'a role that may read no patient',
  )
})

t.test('a reference that a definition names as unchecked only has to exist', async (t) => {
  const created = await ada.client.post('/appointments', { ...ofAda, referred_by: bob.id })
  t.equal(created.status, 201, created.text)
  const missing = await ada.client.post('/appointments', { ...ofAda, referred_by: UNKNOWN_ID })
  t.same(getViolations(missing), ['referred_by NOT_FOUND'])
})

t.test('nothing is created below a parent that the caller may not read', async (t) => {
  const path = (patient: string, name = 'visits') => `/patients/${patient}/${name}`
  const headers = { 'idempotency-key': 'visit' }
  t.equal((await ada.client.post(path(patientOfAda), {})).status, 201)
  t.equal((await ada.client.post(path(patientOfBob), {})).status, 403)
  t.equal((await ada.client.post(path(patientOfBob), {}, headers)).status, 403)
  t.equal((await ada.client.post(path(UNKNOWN_ID), {})).status, 404)
  t.equal((await admin.post(path(patientOfBob), {})).status, 201)
  t.equal((await admin.post(path(UNKNOWN_ID), {})).status, 404)
  t.equal((await ada.client.get(path(patientOfBob))).status, 200, 'the rules of the rows decide who reads')
  t.equal((await ada.client.post(path(patientOfBob, 'inquiries'), {})).status, 201, 'unchecked')
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

t.test('a write runs one statement if the role, the caller or the fields decide', async (t) => {
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
  t.equal(await count(() => admin.patch(path, { room_id: null })), 1, 'nothing changes')
  let target = 0
  const rooms = [null, openRoom]
  t.equal(await count(() => admin.patch(path, { room_id: rooms[target++ % 2] })), 2, 'read, update')
  const byBob = { booked_by: ada.id }
  t.equal(await count(() => ada.client.patch(path, byBob)), 1)
  const checked = ['begin', 'readable', 'insert', 'commit']
  t.equal(await count(() => ada.client.post('/appointments', ofAda)), checked.length)
})

const skip = SERVER ? false : 'the embedded database runs one transaction at a time: set DATABASE_URL'

t.test('a check waits for a change of the row that it depends on', { skip }, async (t) => {
  const patient = await one('patients', { user_id: ada.id })
  const isWaiting = async () => {
    const rows = await database.run(
      `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
       and query like '%"patients"%for share'`,
    )
    return rows.length > 0
  }
  for (const [owner, status] of [
    [ada.id, 201],
    [bob.id, 422],
  ] as const) {
    const reply = await database.transaction(async (tx) => {
      await tx.run('update patients set user_id = $2 where id = $1', [patient, owner])
      const waiting = ada.client.post('/appointments', { ...ofAda, patient_id: patient })
      await waitUntil(isWaiting)
      return { waiting }
    })
    t.equal((await reply.waiting).status, status)
  }
})
