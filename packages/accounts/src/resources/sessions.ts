/** Sessions. `POST /tokens` creates them; this resource lists and ends them. */

import { CALLER, toReads } from '@resource-api/api/rules'
import { Nothing } from '@resource-api/api/schemas'
import { toEveryRole } from '@resource-api/database'
import { getBuiltInName } from '@resource-api/database/application'
import { sessions as table } from '@resource-api/database/tables'
import { collection, defineResource, list, read, remove } from '@resource-api/resources'
import { Session } from '../schemas/sessions.ts'

const ownerOrAdmin = { ...toEveryRole([{ user_id: CALLER }]), admin: true } as const

const NAME = getBuiltInName('sessions')

export const sessions = collection({
  name: NAME,
  table,
  description: 'The sign-ins of a user. Deleting a session signs it out',
  // A revoked credential must not be listed as valid.
  system: { bearerOnly: true, isCredential: true, expiry: table.expires_at, readsPrimary: true },
  schemas: { read: Session, create: Nothing, change: Nothing },
  lists: { sorts: ['created_at'], streams: [] },
  access: { ...toReads(ownerOrAdmin), remove: ownerOrAdmin },
  computed: (row, actor) => ({ current: row.id === actor.sessionId }),
})

export default defineResource(sessions, async (app, resource) => {
  app.get(`/${NAME}`, list(resource))
  app.get(`/${NAME}/:id`, read(resource))
  app.delete(`/${NAME}/:id`, remove(resource))
})
