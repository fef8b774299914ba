/** The collections of an application with those that every one has, and what commands and documents read of all of them. */
import { listScopes } from '@resource-api/api/access'
import type { Version } from '@resource-api/api/versions'
import { type Config, readConfig } from '@resource-api/http/config'
import type { OwnRoutes, ResourcePlugin } from '@resource-api/resources'
import {
  addInverses,
  createRecorders,
  listRouteScopes,
  type Recorders,
  type ResourceDefinition,
} from '@resource-api/resources/internal'
import { createBuiltInResources } from './built-in-resources.ts'

/** What of an application has collections. */
interface ApplicationParts {
  /** The resources, besides those of credentials and events. */
  resources: readonly ResourcePlugin[]
  routes: readonly OwnRoutes[]
  versions: readonly Version[]
}

/** Returns the resources of credentials, events and webhooks of an application. */
export const listBuiltIn = (
  { resources, routes, versions }: ApplicationParts,
  config: Config,
): ResourcePlugin[] =>
  createBuiltInResources(
    resources.map(({ collection }) => collection),
    listRouteScopes(routes),
    versions,
    config,
  )

/** @returns functions that read the collections of the application, by default with the default settings */
export function describeApplication(application: ApplicationParts) {
  const listDefinitions = (config = readConfig({})): ResourceDefinition[] =>
    [...application.resources, ...listBuiltIn(application, config)].map(({ collection }) => collection)
  return {
    listDefinitions,
    /** Returns all scopes that an API key can have. */
    listAllScopes: (config?: Config): string[] =>
      listScopes(listDefinitions(config), listRouteScopes(application.routes)),
    /** Returns the recorders of all resources; none if events are turned off. */
    listRecorders: (config: Config): Recorders =>
      createRecorders(config.EVENTS ? addInverses(listDefinitions(config)) : []),
  }
}
