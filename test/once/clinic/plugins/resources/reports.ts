/** Reports over appointments and invoices. */
import { Type } from '@sinclair/typebox'
import { and, eq, sql } from 'drizzle-orm'
import { appointments } from '../../drizzle/tables/appointments.ts'
import { invoices } from '../../drizzle/tables/invoices.ts'
import { Id } from '../../schemas/types.ts'
import type { OwnRoutes } from '../collection/own-routes.ts'

const Revenue = Type.Array(
  Type.Object({
    practitioner_id: Id('The practitioner'),
    month: Type.String({ description: 'The month of the appointments, in UTC', examples: ['2026-12'] }),
    invoices: Type.Integer({ description: 'The number of invoices', examples: [2] }),
    amount: Type.String({ description: 'The sum of their amounts', examples: ['80.00'] }),
  }),
)

const month = sql<string>`to_char(${appointments.starts_at} at time zone 'UTC', 'YYYY-MM')`

export const reports: OwnRoutes = {
  name: 'reports',
  description: 'Figures over appointments and invoices',
  async plugin(app) {
    app.get(
      '/reports/revenue',
      {
        config: { access: 'invoices:list' },
        schema: {
          summary: 'Sum the invoices by practitioner and month',
          description: 'Counts the issued and paid invoices that the caller may read.',
          response: { 200: Revenue },
        },
      },
      (request) =>
        app.database
          .select({
            practitioner_id: appointments.practitioner_id,
            month: month.as('month'),
            invoices: sql<number>`count(*)`.as('invoices'),
            amount: sql<string>`sum(${invoices.amount})`.as('amount'),
          })
          .from(invoices)
          .innerJoin(appointments, eq(appointments.id, invoices.appointment_id))
          .where(
            and(
              sql`${invoices.status} in ('issued', 'paid')`,
              request.getReadable(invoices),
              request.getReadable(appointments),
            ),
          )
          .groupBy(appointments.practitioner_id, month)
          .orderBy(appointments.practitioner_id, month),
    )
  },
}
