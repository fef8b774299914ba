/** Serves collections of tests, each with a route for all that its `access` names. */
import type { TObject } from '@sinclair/typebox'
import { type RoleRules, verbs } from '../../api/src/rules/rules.ts'
import type {
  ActionOptions,
  ChangeCode,
  CreateCode,
  RemoveCode,
  RunAction,
} from '../../resources/src/definition/code.ts'
import type { ResourceDefinition } from '../../resources/src/definition/definition.ts'
import type { Row } from '../../resources/src/definition/store.ts'
import { defineResource, type ResourcePlugin } from '../../resources/src/routes/plugin.ts'
import { restore } from '../../resources/src/routes/restores.ts'
import {
  action,
  aggregate,
  create,
  list,
  read,
  remove,
  replace,
  update,
} from '../../resources/src/routes/routes.ts'

type Fields = Record<string, unknown>

/** Actions with their access, by the last segments of their paths. */
export type Actions = Readonly<
  Record<string, ActionOptions<TObject> & { access: RoleRules; run: RunAction<Row> }>
>

/** The code of the routes: that of `change` is run by PUT and by PATCH. */
interface TestCode {
  create?: CreateCode<Row, Fields>
  change?: ChangeCode<Row, Fields>
  remove?: RemoveCode<Row>
  actions?: Actions
}

const getUrl = ({ name, parent }: ResourceDefinition) =>
  `${parent ? `/${parent.to}/:${parent.member}` : ''}/${name}`

/** Returns the plugin of a resource with all routes. */
export function serve(definition: ResourceDefinition, code: TestCode = {}): ResourcePlugin {
  const collection = { ...definition, verbs: verbs.filter((verb) => definition.access[verb]) }
  const url = getUrl(collection)
  const plugin = defineResource(collection, async (app, resource) => {
    const routes = {
      list: () => app.get(url, list(resource)),
      read: () => app.get(`${url}/:id`, read(resource)),
      create: () => app.post(url, create(resource, code.create)),
      replace: () => app.put(`${url}/:id`, replace(resource, code.change)),
      update: () => app.patch(`${url}/:id`, update(resource, code.change)),
      remove: () => app.delete(`${url}/:id`, remove(resource, code.remove)),
    }
    for (const verb of collection.verbs) routes[verb]()
    if (collection.isRestorable) app.post(`${url}/:id/restores`, restore(resource))
    if (collection.aggregates) app.get(`${url}/aggregates`, aggregate(resource))
  })
  return withActions(plugin, code.actions ?? {})
}

/** Returns a resource with further actions. */
export function withActions(plugin: ResourcePlugin, actions: Actions): ResourcePlugin {
  const { collection } = plugin
  const operations = { ...collection.operations, ...actions }
  return defineResource({ ...collection, operations }, async (app, resource) => {
    await plugin(app, {})
    for (const [segment, { run, ...options }] of Object.entries(actions))
      app.post(`${getUrl(collection)}/:id/${segment}`, action(resource, segment, options, run))
  })
}

/** Returns a resource with other parts of its collection, and the same routes. */
export const withChanges = (plugin: ResourcePlugin, changes: Partial<ResourceDefinition>): ResourcePlugin =>
  defineResource({ ...plugin.collection, ...changes }, async (app) => {
    await plugin(app, {})
  })

/** Returns the resources, one of them with other parts. @param change returns the other one */
export const replaceResource = (
  resources: readonly ResourcePlugin[],
  name: string,
  change: (plugin: ResourcePlugin) => ResourcePlugin,
): ResourcePlugin[] => resources.map((each) => (each.collection.name === name ? change(each) : each))

/** Returns the plugins of resources: those of collections have all routes. */
export const serveAll = (resources: readonly (ResourcePlugin | ResourceDefinition)[]): ResourcePlugin[] =>
  resources.map((each) => (typeof each === 'function' ? each : serve(each)))

/** Returns the collections of resources. */
export const toCollections = (
  resources: readonly (ResourcePlugin | ResourceDefinition)[],
): ResourceDefinition[] => serveAll(resources).map(({ collection }) => collection)
