/** The resources of the app, and what commands, documents and tests read of all of them. */
import { listScopes } from '../plugins/access/scopes.ts'
import type { ResourceDefinition } from '../plugins/collection/definition.ts'
import { addInverses } from '../plugins/collection/inverses.ts'
import { listRouteScopes } from '../plugins/collection/own-routes.ts'
import type { ResourcePlugin } from '../plugins/collection/plugin.ts'
import { createRecorders, type Recorders } from '../plugins/outbox/recorder.ts'
import userProfiles from '../plugins/user-profiles.ts'
import users from '../plugins/users.ts'
import { versions } from '../plugins/versioning/index.ts'
import { createBuiltInResources } from './built-in-resources.ts'
import { type Config, readConfig } from './config.ts'
import { own } from './own.ts'

/** The resources, besides those of credentials and events. */
export const resources: readonly ResourcePlugin[] = [users, userProfiles, ...own.resources]

/** Returns all definitions of an app, by default with the default settings. */
export function listDefinitions(config = readConfig({})): ResourceDefinition[] {
  const definitions = resources.map(({ collection }) => collection)
  const builtIn = createBuiltInResources(definitions, listRouteScopes(own.routes), versions, config)
  return [...definitions, ...builtIn.map(({ collection }) => collection)]
}

/** Returns all scopes that an API key can have. */
export const listAllScopes = (config?: Config): string[] =>
  listScopes(listDefinitions(config), listRouteScopes(own.routes))

/** Returns the recorders of all resources; none if events are turned off. */
export const listRecorders = (config: Config): Recorders =>
  createRecorders(config.EVENTS ? addInverses(listDefinitions(config)) : [])
