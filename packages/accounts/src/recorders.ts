/** The recorders of the changes of accounts, for commands and the first start. */
import type { Config } from '@resource-api/http/config'
import { createRecorders, type Recorders } from '@resource-api/resources/internal'
import { createApiKeys } from './resources/api-keys.ts'
import { sessions } from './resources/sessions.ts'
import { users } from './users.ts'

/** Returns the recorders of what commands and the first start change; none if events are turned off. */
export const getAccountRecorders = ({ EVENTS }: Pick<Config, 'EVENTS'>): Recorders =>
  // The scopes of keys do not matter for their events.
  createRecorders(EVENTS ? [users, sessions, createApiKeys([])] : [])
