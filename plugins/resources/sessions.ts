/** Defines sessions. `POST /tokens` creates them; this resource lists and ends them. */
import { sessions } from '../../drizzle/credential-tables.ts'
import { toEveryRole } from '../../schemas/roles.ts'
import { Session } from '../../schemas/sessions.ts'
import { Nothing } from '../../schemas/types.ts'
import { CALLER } from '../access/rules.ts'
import { defineResource, type ResourceDefinition } from '../collection/definition.ts'

const ownerOrAdmin = { ...toEveryRole([{ user_id: CALLER }]), admin: true } as const

export const sessionsResource: ResourceDefinition = defineResource({
  name: 'sessions',
  singular: 'Session',
  plural: 'Sessions',
  description: 'The sign-ins of a user. Deleting a session signs it out',
  table: sessions,
  streams: [],
  verbs: ['list', 'read', 'remove'],
  bearerOnly: true,
  expiry: sessions.expires_at,
  // A revoked credential must not be listed as valid.
  readsPrimary: true,
  schemas: { read: Session, create: Nothing, change: Nothing },
  filters: [],
  sorts: { created_at: sessions.created_at },
  search: [],
  relations: {},
  access: { list: ownerOrAdmin, read: ownerOrAdmin, remove: ownerOrAdmin },
  computed: (row, actor) => ({ current: row.id === actor.sessionId }),
})
