/** The checks pass for what an ordinary application declares, and fail when a definition or a route is wrong. */
import { isDeepStrictEqual } from 'node:util'
import { apiError, CALLER, toReads } from '@resource-api/http'
import { defineResource, type ResourcePlugin } from '@resource-api/resources'
import { Type } from '@sinclair/typebox'
import t, { type Test } from 'tap'
import type { AppOverrides } from '../../../src/app.ts'
import { replaceResource, serve, withChanges } from '../helpers/serve.ts'
import { buildLibrary, libraryExamples, libraryResources } from '../library/index.ts'
import { Shelf } from '../library/schemas.ts'
import { checkAccess, checkDocuments, checkExamples, checkRowAccess } from '../src/index.ts'

type CheckTest = Parameters<typeof checkAccess>[0]

const options = { examples: libraryExamples }

await checkAccess(t, buildLibrary, options)
await checkRowAccess(t, buildLibrary, options)
await checkExamples(t, buildLibrary, options)
await checkDocuments(t, buildLibrary, options)

/** Runs a check, and returns what has failed. */
async function findFailures(t: Test, check: (t: CheckTest) => Promise<void>): Promise<string[]> {
  const failures: string[] = []
  const expect = (isRight: boolean, message = 'a comparison') => {
    if (!isRight) failures.push(message)
    return isRight
  }
  const recorder: CheckTest = {
    teardown: (undo) => t.teardown(undo),
    ok: (value, ...message) => expect(Boolean(value), ...message),
    same: (found, wanted, ...message) => expect(isDeepStrictEqual(found, wanted), ...message),
    async test(_name, { skip }, run) {
      if (skip === false) await run(recorder).catch(({ message }) => failures.push(message))
    },
  }
  await check(recorder)
  return failures
}

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
  const promises = { shelves: { list: { member: 'own' } } }
  const access = await findFailures(t, (t) => checkAccess(t, buildLibrary, { except, promises }))
  t.match(access, [/the rules of shelves$/])
  const rows = await findFailures(t, (t) => checkRowAccess(t, buildLibrary, { except, promises }))
  t.ok(
    rows.some((message) => /^member: \/api\/v1\/shelves$/.test(message)),
    rows.join('\n'),
  )
})

t.test('a list that shows other rows than a rule by relation promises fails', async (t) => {
  const left = leaveOut('shelves', 'loans', 'reviews')
  const check = (promises: Parameters<typeof checkRowAccess>[2]) =>
    findFailures(t, (t) => checkRowAccess(t, buildLibrary, { ...promises, except: left }))
  const isOfBooks = (message: string) => /^member: \/api\/v1\/shelves\/[^/]+\/books$/.test(message)
  const closed = { books: { list: { member: 'own by shelf.user_id' } } }
  t.ok((await check({ promises: closed })).some(isOfBooks), 'public shelves are shown to others')
  const open = { books: { list: { member: 'all' } } }
  t.ok((await check({ promises: open })).some(isOfBooks), 'books of other shelves are not shown')
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
  const access = await findFailures(t, (t) => checkAccess(t, buildLibrary, { except: left }))
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
    const overrides: AppOverrides = { resources }
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
  }
  const left = { events: 'about others' }
  t.same(await findFailures(t, (t) => checkExamples(t, buildLibrary, { except: left, overrides })), [])
})

t.test('an option for a resource that does not exist fails', async (t) => {
  const wrong = { ...except, papers: 'none' }
  const failures = await findFailures(t, (t) => checkRowAccess(t, buildLibrary, { except: wrong }))
  t.match(failures, ['options name resources of the application'])
})
