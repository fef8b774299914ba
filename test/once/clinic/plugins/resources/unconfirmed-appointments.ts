/** Cancels appointments that were never confirmed, every night. */
import { and, eq, sql } from 'drizzle-orm'
import { appointments } from '../../drizzle/tables/appointments.ts'
import { defineJob } from '../jobs/definition.ts'
import { appointmentsResource } from './appointments.ts'

export const cancelUnconfirmed = defineJob({
  name: 'cancel-unconfirmed',
  cron: '0 2 * * *',
  async run({ database, getStore, log, signal }) {
    const overdue = await database
      .select()
      .from(appointments)
      .where(and(eq(appointments.status, 'requested'), sql`${appointments.starts_at} < now()`))
    const store = getStore(appointmentsResource)
    for (const appointment of overdue) {
      signal.throwIfAborted()
      await store.update(appointment, { status: 'canceled' })
    }
    log.info({ count: overdue.length }, 'unconfirmed appointments canceled')
  },
})
