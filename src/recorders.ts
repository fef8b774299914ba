/** The recorders of the changes that commands and the first start make: accounts and their credentials. */
import { createRecorders, type Recorders } from '../plugins/outbox/recorder.ts'
import { createApiKeysResource } from '../plugins/resources/api-keys.ts'
import { sessionsResource } from '../plugins/resources/sessions.ts'
import { usersResource } from '../plugins/resources/users.ts'
import type { Config } from './config.ts'

/** Returns the recorders; none if events are turned off. Scopes of keys do not matter for their events. */
export const getAccountRecorders = ({ EVENTS }: Config): Recorders =>
  createRecorders(EVENTS ? [usersResource, sessionsResource, createApiKeysResource([])] : [])
