/** The resources of the application, and what commands, documents and tests read of all of them. */
import './application.ts'
import { describeApplication } from '@resource-api/events'
import type { ResourcePlugin } from '@resource-api/resources'
import userProfiles from '../plugins/user-profiles.ts'
import users from '../plugins/users.ts'
import { versions } from '../plugins/versions.ts'
import { own } from './own.ts'

/** The resources, besides those of credentials and events. */
export const resources: readonly ResourcePlugin[] = [users, userProfiles, ...own.resources]

export const { listDefinitions, listAllScopes, listRecorders } = describeApplication({
  resources,
  routes: own.routes,
  versions,
})

export const versionNumbers = versions.map(({ representation }) => representation.version)
