/** The checks pass for what an ordinary application declares, and fail when a definition or a route is wrong. */
import { isDeepStrictEqual } from 'node:util'
import { apiError } from '@resource-api/api/errors'
import { CALLER, toReads } from '@resource-api/api/rules'
import {
  create,
  defineResource,
  list,
  type ResourcePlugin,
  read,
  remove,
  replace,
  update,
} from '@resource-api/resources'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance, RouteOptions } from 'fastify'
import t, { type Test } from 'tap'
import type { AppOverrides } from '../../../src/app.ts'
import { replaceResource, serve, withChanges } from '../helpers/serve.ts'
import {
  buildLibrary,
  libraryExamples,
  libraryResources,
  libraryPromises as promises,
} from '../library/index.ts'
import { Shelf } from '../library/schemas.ts'
import { libraryVersions } from '../library/versions.ts'
import { checkAccess, checkDocuments, checkExamples, checkRowAccess } from '../src/index.ts'

type CheckTest = Parameters<typeof checkAccess>[0]

// Thousands of requests.
t.setTimeout(600_000)

const options = { examples: libraryExamples }

await checkAccess(t, buildLibrary, { ...options, promises })
await checkRowAccess(t, buildLibrary, { ...options, promises })
await checkExamples(t, buildLibrary, options)
await checkDocuments(t, buildLibrary, options)

/** Runs a check. @returns what has failed, and what was found there instead */
async function runCheck(t: Test, check: (t: CheckTest) => Promise<void>) {
  const failures: string[] = []
  const found: string[] = []
  const expect = (isRight: boolean, message = 'a comparison', value: unknown = undefined) => {
    if (isRight) return true
    failures.push(message)
    found.push(`${message}: ${JSON.stringify(value)}`)
    return false
  }
  const recorder: CheckTest = {
    teardown: (undo) => t.teardown(undo),
    ok: (value, ...message) => expect(Boolean(value), ...message),
    same: (value, wanted, ...[message]) => expect(isDeepStrictEqual(value, wanted), message, value),
    async test(_name, { skip }, run) {
      if (skip === false) await run(recorder).catch(({ message }) => failures.push(message))
    },
  }
  await check(recorder)
  return { failures, found }
}

/** Runs a check, and returns what has failed. */
const findFailures = async (t: Test, check: (t: CheckTest) => Promise<void>): Promise<string[]> =>
  (await runCheck(t, check)).failures

/** Returns the promises of the library with other cells of an operation. */
const promise = (collection: string, operation: string, cells: Record<string, string>) => ({
  ...promises,
  [collection]: { ...Object(promises[collection]), [operation]: cells },
})

/** Returns the library with another plugin of its shelves. */
const withShelves = (change: (plugin: ResourcePlugin) => ResourcePlugin): AppOverrides => ({
  resources: replaceResource(libraryResources, 'shelves', change),
})

const BUILT_IN = [
  'users',
  'user-profiles',
  'sessions',
  'api-keys',
  'webhook-endpoints',
  'deliveries',
  'replays',
]

/** Leaves out what is not about some resources, so that a check is quick. */
const leaveOut = (...names: string[]) =>
  Object.fromEntries([...BUILT_IN, 'readers', ...names].map((name) => [name, 'about others']))

const except = leaveOut('books', 'loans', 'reviews')

t.test('a promise that the definition breaks fails', async (t) => {
  const narrow = promise('shelves', 'list', { admin: 'all', manager: 'all', member: 'own' })
  const access = await findFailures(t, (t) => checkAccess(t, buildLibrary, { except, promises: narrow }))
  t.same(access, ['test/access-matrix.json: the rules of shelves, list'])
  const rows = await findFailures(t, (t) => checkRowAccess(t, buildLibrary, { except, promises: narrow }))
  t.ok(
    rows.some((message) => /^member: \/api\/v1\/shelves$/.test(message)),
    rows.join('\n'),
  )
})

t.test('a collection that is open without credentials, which is not promised, fails', async (t) => {
  const overrides = withShelves((plugin) => {
    const { access } = plugin.collection
    return withChanges(plugin, { access: { ...access, list: { ...access.list, anonymous: true } } })
  })
  const failures = await findFailures(t, (t) => checkAccess(t, buildLibrary, { except, overrides, promises }))
  t.ok(
    failures.some((message) => /the rules of shelves, list$/.test(message)),
    failures.join('\n'),
  )
  t.ok(failures.includes('v1 GET list shelves: anonymous'), failures.join('\n'))
})

t.test('a list that shows other rows than a rule by relation promises fails', async (t) => {
  const left = leaveOut('shelves', 'loans', 'reviews')
  const check = (member: string) =>
    findFailures(t, (t) =>
      checkRowAccess(t, buildLibrary, {
        promises: promise('books', 'list', { admin: 'all', manager: 'all', member }),
        except: left,
      }),
    )
  const isOfBooks = (message: string) => /^member: \/api\/v1\/shelves\/[^/]+\/books$/.test(message)
  t.ok((await check('own by shelf.user_id')).some(isOfBooks), 'public shelves are shown to others')
  t.ok((await check('all')).some(isOfBooks), 'books of other shelves are not shown')
})

t.test('a rule of several conditions is documented as the service grants it', async (t) => {
  const member = [{ 'shelf.is_public': true, 'shelf.user_id': CALLER, title: 'Poems' }] as const
  const access = toReads({ admin: true, manager: true, member })
  const overrides: AppOverrides = {
    resources: replaceResource(libraryResources, 'books', (plugin) =>
      withChanges(plugin, { access: { ...plugin.collection.access, ...access } }),
    ),
  }
  const left = leaveOut('shelves', 'loans', 'reviews')
  const check = (t: CheckTest) => checkDocuments(t, buildLibrary, { except: left, overrides })
  t.same(await findFailures(t, check), [])
})

t.test('the checks find the routes under paths of their own', async (t) => {
  const overrides = withShelves(({ collection }) =>
    defineResource(collection, async (app, resource) => {
      app.get('/stacks', list(resource))
      app.get('/stacks/:id/contents', read(resource))
      app.post('/stacks/new', create(resource))
      app.put('/stacks/:id', replace(resource))
      app.patch('/stacks/:id', update(resource))
      app.delete('/stacks/:id', remove(resource))
    }),
  )
  const check = (t: CheckTest) => checkAccess(t, buildLibrary, { ...options, except, overrides, promises })
  t.same(await findFailures(t, check), [])
})

t.test('a route without access fails', async (t) => {
  const overrides = withShelves((plugin) =>
    defineResource(plugin.collection, async (app) => {
      await plugin(app, {})
      app.get('/shelves/:id/keys', async () => ({}))
    }),
  )
  for (const check of [checkAccess, checkRowAccess, checkExamples, checkDocuments]) {
    const failures = await findFailures(t, (t) => check(t, buildLibrary, { except, overrides }))
    t.match(failures.join('\n'), '/shelves/:id/keys', check.name)
  }
})

t.test('code that refuses what the rules allow fails', async (t) => {
  const left = leaveOut('shelves', 'books', 'loans')
  const access = await findFailures(t, (t) => checkAccess(t, buildLibrary, { except: left, promises }))
  t.ok(
    access.some((message) => /POST create reviews: member/.test(message)),
    access.join('\n'),
  )
  const examples = await findFailures(t, (t) => checkExamples(t, buildLibrary, { except: left }))
  t.ok(
    examples.some((message) => /^createReview .*: 403 /.test(message)),
    examples.join('\n'),
  )
})

t.test(
  'a deletion may be refused by a conflict that it declares, and by the rows that are kept',
  async (t) => {
    const isLent = (name: string) => name === 'loans' || name === 'reviews'
    const resources = replaceResource(
      libraryResources.filter(({ collection }) => !isLent(collection.name)),
      'books',
      ({ collection }) =>
        serve(collection, {
          remove: {
            conflicts: [{ name: 'long', message: 'A book of 200 pages is kept' }],
            run: async () => {
              throw apiError('RESOURCE_CONFLICT', { message: 'A book of 80 pages is kept' })
            },
          },
        }),
    )
    const overrides: AppOverrides = { resources, routes: [] }
    t.same(await findFailures(t, (t) => checkExamples(t, buildLibrary, { overrides })), [])
  },
)

t.test('a text without a limit fails', async (t) => {
  const name = Type.String({ pattern: '^[a-z]+$', description: 'The name', examples: ['poems'] })
  const fields = Type.Object({ name }, { title: 'ShelfCreate' })
  const schemas = {
    read: Type.Object({ ...Shelf.properties, name }, { title: 'Shelf' }),
    create: fields,
    change: fields,
  }
  const overrides = withShelves((plugin) => withChanges(plugin, { schemas }))
  const failures = await findFailures(t, (t) => checkDocuments(t, buildLibrary, { except, overrides }))
  t.ok(failures.includes('a text has a limit'), failures.join('\n'))
})

t.test('events can be left out', async (t) => {
  const overrides: AppOverrides = {
    resources: libraryResources.filter(({ collection }) => collection.name.startsWith('user')),
    routes: [],
  }
  const left = { events: 'about others' }
  t.same(await findFailures(t, (t) => checkExamples(t, buildLibrary, { except: left, overrides })), [])
})

t.test('an option for a resource that does not exist fails', async (t) => {
  const wrong = { ...except, papers: 'none' }
  const failures = await findFailures(t, (t) => checkRowAccess(t, buildLibrary, { except: wrong }))
  t.match(failures, ['options name resources of the application'])
})

t.test(
  'a cell that is promised wider than the rule fails once, and the requests that it promises',
  async (t) => {
    const wide = promise('shelves', 'update', { admin: 'all', manager: 'all', member: 'all' })
    const failures = await findFailures(t, (t) => checkAccess(t, buildLibrary, { except, promises: wide }))
    t.equal(failures.filter((message) => /the rules of shelves, update$/.test(message)).length, 1)
    t.ok(failures.includes('v1 PATCH update shelves: member'), failures.join('\n'))
  },
)

t.test('an application without promises fails, with the command that writes them', async (t) => {
  const root = process.cwd()
  // The file is read when the check is called.
  process.chdir(t.testdir({}))
  const all = leaveOut('shelves', 'books', 'loans', 'reviews')
  const failures = findFailures(t, (t) => {
    const checked = checkAccess(t, buildLibrary, { except: all })
    process.chdir(root)
    return checked
  })
  t.same(await failures, ['test/access-matrix.json is missing; npx resource-api access --write writes it'])
})

/** Returns the library with hooks around the routes of its shelves. */
const withHooks = (addHooks: (app: FastifyInstance) => void): AppOverrides =>
  withShelves((plugin) =>
    defineResource(plugin.collection, async (app) => {
      addHooks(app)
      await plugin(app, {})
    }),
  )

const isList = ({ method, routePath }: RouteOptions & { routePath: string }) =>
  method === 'GET' && routePath === '/shelves'

t.test('a route that ignores the scopes of keys fails', async (t) => {
  const overrides = withHooks((app) =>
    app.addHook('onRoute', (route) => {
      if (isList(route)) route.config = { ...route.config, access: 'authenticated' }
    }),
  )
  const failures = await findFailures(t, (t) => checkAccess(t, buildLibrary, { except, overrides, promises }))
  t.same(
    failures.filter((message) => message.startsWith('v1 ')),
    ['v1 GET list shelves: a key with all other scopes', 'v1 GET list shelves: a key with no scope'],
  )
})

t.test('a list that callers without a valid credential get fails, for each of them', async (t) => {
  const overrides = withHooks((app) =>
    app.addHook('onRoute', (route) => {
      if (!isList(route)) return
      route.config = { ...route.config, access: 'public' }
      route.onRequest = async (_request, reply) => reply.send()
    }),
  )
  const failures = await findFailures(t, (t) => checkAccess(t, buildLibrary, { except, overrides, promises }))
  for (const caller of [
    'anonymous',
    'a revoked key',
    'an ended session',
    'a suspended user',
    "a suspended user's key",
  ])
    t.ok(failures.includes(`v1 GET list shelves: ${caller}`), `${caller}\n${failures.join('\n')}`)
})

t.test('a reply with other headers or members than the document has fails, by its operation', async (t) => {
  const overrides = withHooks((app) =>
    app.addHook('onSend', async (_request, reply, payload) => {
      reply.header('x-shelf', '1').removeHeader('x-request-id')
      return typeof payload === 'string' ? payload.replace(/("is_public":)(true|false)/g, '$1"$2"') : payload
    }),
  )
  const { found } = await runCheck(t, (t) => checkExamples(t, buildLibrary, { except, overrides }))
  for (const expected of [
    /^getShelf .*the header x-shelf is not declared/,
    /^getShelf .*the header x-request-id is missing/,
    /^getShelf .*is_public must be boolean/,
  ])
    t.ok(
      found.some((message) => expected.test(message)),
      `${expected}\n${found.slice(0, 5).join('\n')}`,
    )
})

t.test('a version with other fields gets bodies in its fields', async (t) => {
  const left = leaveOut('reviews')
  const overrides: AppOverrides = { versions: libraryVersions }
  const check = (t: CheckTest) => checkAccess(t, buildLibrary, { except: left, overrides, promises })
  t.same(await findFailures(t, check), [])
})
