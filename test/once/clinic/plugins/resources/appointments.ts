/** Defines appointments. */
import { eq, sql } from 'drizzle-orm'
import { appointments } from '../../drizzle/tables/appointments.ts'
import { invoices } from '../../drizzle/tables/invoices.ts'
import { patients } from '../../drizzle/tables/patients.ts'
import { practitioners } from '../../drizzle/tables/practitioners.ts'
import { rooms } from '../../drizzle/tables/rooms.ts'
import { users } from '../../drizzle/user-tables.ts'
import { Appointment, AppointmentChange, AppointmentCreate } from '../../schemas/appointments.ts'
import { CALLER } from '../access/rules.ts'
import { defineResource, type ResourceDefinition } from '../collection/definition.ts'
import { apiError } from '../errors/index.ts'

const staff = { admin: true, manager: true, practitioner: [{ practitioner_user_id: CALLER }] } as const
const readable = { ...staff, member: [{ user_id: CALLER }] } as const
const creatable = { admin: true, manager: true, member: [{ user_id: CALLER }] } as const
const removable = { admin: true, manager: true } as const

export const appointmentsResource: ResourceDefinition = defineResource({
  name: 'appointments',
  singular: 'Appointment',
  plural: 'Appointments',
  description: 'Appointments of patients with practitioners',
  table: appointments,
  schemas: { read: Appointment, create: AppointmentCreate, change: AppointmentChange },
  immutable: ['patient_id', 'practitioner_id'],
  kept: ['status'],
  filters: ['user_id', 'patient_id', 'practitioner_id', 'room_id', 'status'],
  ranges: ['starts_at', 'ends_at', 'price_amount'],
  sorts: {
    starts_at: appointments.starts_at,
    ends_at: appointments.ends_at,
    price_amount: appointments.price_amount,
    created_at: appointments.created_at,
    updated_at: appointments.updated_at,
  },
  search: ['note'],
  relations: {
    user: { to: users, local: 'user_id', foreign: 'id', many: false },
    patient: { to: patients, local: 'patient_id', foreign: 'id', many: false },
    practitioner: { to: practitioners, local: 'practitioner_id', foreign: 'id', many: false },
    room: { to: rooms, local: 'room_id', foreign: 'id', many: false },
  },
  access: {
    list: readable,
    read: readable,
    create: creatable,
    replace: readable,
    update: readable,
    remove: removable,
  },
  transitions: {
    status: { requested: ['confirmed', 'canceled'], confirmed: ['done', 'canceled'], canceled: [], done: [] },
  },
  defaults: (actor) => ({ user_id: actor.userId }),
  withheld: (actor) => (actor.role === 'member' ? ['status'] : []),
  constraints: {
    appointments_room_free: {
      code: 'OVERLAP',
      fields: ['room_id', 'starts_at', 'ends_at'],
      message: 'The room is taken at this time',
    },
    appointments_practitioner_free: {
      code: 'OVERLAP',
      fields: ['practitioner_id', 'starts_at', 'ends_at'],
      message: 'The practitioner has another appointment at this time',
    },
    appointments_end_after_start: {
      code: 'INVALID_VALUE',
      fields: ['ends_at'],
      message: 'must be after starts_at',
    },
  },
  check: ({ starts_at, ends_at }) =>
    starts_at && ends_at && ends_at <= starts_at
      ? [{ field: 'ends_at', message: 'must be after starts_at', code: 'INVALID_VALUE' }]
      : [],
  actions: {
    async create(store, id, body) {
      const { connection } = store
      const [people] = await connection
        .select({
          user_id: patients.user_id,
          practitioner_user_id: sql<string>`${practitioners.user_id}`.as('practitioner_user_id'),
        })
        .from(patients)
        .innerJoin(practitioners, eq(practitioners.id, body.practitioner_id))
        .where(eq(patients.id, body.patient_id))
      if (!people)
        throw apiError('RESOURCE_CONFLICT', { message: 'The patient or the practitioner was deleted' })
      return store.insert({ ...body, ...people, id })
    },

    // Patients change and cancel their own appointments; only staff decides on another status.
    guard(_current, { next, changed }, actor) {
      if (actor.role !== 'member' || !changed.has('status') || next.status === 'canceled') return
      throw apiError('FORBIDDEN', { message: 'Patients can only cancel an appointment' })
    },
  },
  operations: {
    confirm: {
      operationId: 'confirmAppointment',
      summary: 'Confirm an appointment',
      description: 'Confirms a requested appointment, and issues its invoice.',
      access: staff,
      async run(store, current) {
        if (current.status !== 'requested') {
          throw apiError('RESOURCE_CONFLICT', { message: 'Only a requested appointment can be confirmed' })
        }
        await store.of(invoices).create({
          user_id: current.user_id,
          appointment_id: current.id,
          number: `R-${current.id.slice(-12)}`,
          amount: current.price_amount,
          status: 'issued',
        })
        return store.update(current, { status: 'confirmed' })
      },
    },
  },
})
