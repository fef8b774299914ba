/** A report: a route of one's own. */
import { type OwnRoutes, operation } from '@resource-api/resources'
import { Type } from '@sinclair/typebox'
import { loans } from './tables.ts'

const Count = Type.Object(
  { count: Type.Integer({ description: 'How many there are', examples: [3] }) },
  { title: 'LoanCount', description: 'The number of loans' },
)

export const reports: OwnRoutes = {
  name: 'reports',
  description: 'Figures over loans',
  async plugin(app) {
    app.get(
      '/reports/loans',
      operation({
        access: 'loans:list',
        operationId: 'countLoans',
        summary: 'Count loans',
        response: { 200: Count },
        run: async ({ getReadable }) => ({ count: await app.database.$count(loans, getReadable(loans)) }),
      }),
    )
  },
}
