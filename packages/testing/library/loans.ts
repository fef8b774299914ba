/** Loans: states that follow each other and are all that changes, and no removal. */
import { CALLER, toReads } from '@resource-api/api/rules'
import { collection, create, defineResource, list, read, replace, update } from '@resource-api/resources'
import { Loan, LoanChange, LoanCreate } from './schemas.ts'
import { loans as table } from './tables.ts'

const own = { admin: true, manager: true, member: [{ user_id: CALLER }] } as const
const staff = { admin: true, manager: true } as const

const loans = collection({
  table,
  description: 'Books that readers have asked for',
  schemas: { read: Loan, create: LoanCreate, change: LoanChange },
  lists: { filters: ['book_id'], sorts: ['created_at'], streams: [] },
  access: { ...toReads(own), create: own, replace: staff, update: staff },
  transitions: { status: { requested: ['lent'], lent: ['returned'], returned: [] } },
  fields: { status: { write: ['admin', 'manager'] } },
  defaults: (actor) => ({ user_id: actor.userId }),
})

export default defineResource(loans, async (app, resource) => {
  app.get('/loans', list(resource))
  app.get('/loans/:id', read(resource))
  app.post('/loans', create(resource))
  app.put('/loans/:id', replace(resource))
  app.patch('/loans/:id', update(resource))
})
