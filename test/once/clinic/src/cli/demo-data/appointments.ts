/** The demo rows of appointments. */
import { appointments } from '../../../drizzle/tables/appointments.ts'
import { demoRows as patientsRows } from './patients.ts'
import { demoRows as practitionersRows } from './practitioners.ts'
import { Random } from './random.ts'
import { demoRows as roomsRows } from './rooms.ts'
import {
  buildBase,
  getMoment,
  getRowId,
  pickIndex,
  type RowOf,
  type SeedContext,
  type SeedStep,
  toIsoString,
} from './step.ts'
import { demoRows as usersRows } from './users.ts'

const HOUR_MS = 3_600_000

function buildAppointment(context: SeedContext, index: number): RowOf<typeof appointments> {
  const random = new Random(context.seed, 'appointments', index)
  const created = getMoment(context, index, context.users, random)
  // The rows of patients and practitioners have the index of their user.
  const patient = pickIndex(context, patientsRows, created, random)
  const practitioner = pickIndex(context, practitionersRows, created, random)
  // No two rows overlap: each has an hour of its own.
  const start = context.until + index * HOUR_MS
  return {
    ...buildBase(random, created),
    user_id: getRowId(context, usersRows, patient),
    patient_id: getRowId(context, patientsRows, patient),
    practitioner_id: getRowId(context, practitionersRows, practitioner),
    practitioner_user_id: getRowId(context, usersRows, practitioner),
    room_id: getRowId(context, roomsRows, pickIndex(context, roomsRows, created, random)),
    starts_at: toIsoString(start),
    ends_at: toIsoString(start + HOUR_MS),
    price_amount: '5.00',
    note: 'Example note',
    status: random.pick(['requested', 'confirmed', 'canceled', 'done']),
  }
}

export const demoRows: SeedStep = {
  resource: 'appointments',
  tables: { appointments },
  indicesPerUser: 1,
  build: (context, index) => ({ appointments: [buildAppointment(context, index)] }),
}
