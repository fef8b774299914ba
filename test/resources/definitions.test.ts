/** The definitions keep what the API promises of lists, and what every definition needs: indexes and valid examples. */
import t from 'tap'
import { products } from '../../drizzle/tables.ts'
import { findFilterMistakes, findSortMistakes } from '../../plugins/collection/check/lists.ts'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import { buildExample } from '../../plugins/openapi/examples.ts'
import { productsResource } from '../../plugins/resources/products.ts'
import { compileSchema } from '../../plugins/validation/formats.ts'
import {
  definitions,
  isRegistered,
  locateDefinition,
  locateSchema,
  locateTable,
} from '../helpers/definitions.ts'

/** What clients rely on; it does not follow from the definitions. A resource that is not registered is ignored. */
const PROMISED: Record<
  string,
  Pick<ResourceDefinition, 'filters' | 'ranges' | 'search'> & {
    sorts: string[]
    /** The relations, and the resources that they lead to. One to a resource that is not registered is absent. */
    include: Record<string, string>
  }
> = {
  users: {
    filters: ['status', 'role', 'email'],
    ranges: [],
    sorts: ['name', 'email', 'created_at', 'updated_at'],
    search: ['name', 'email'],
    include: { orders: 'orders', posts: 'posts', profile: 'user-profiles' },
  },
  'user-profiles': {
    filters: ['user_id'],
    ranges: [],
    sorts: ['display_name', 'created_at', 'updated_at'],
    search: ['display_name', 'bio'],
    include: { user: 'users' },
  },
  posts: {
    filters: ['status'],
    ranges: [],
    sorts: ['title', 'published_at', 'created_at', 'updated_at'],
    search: ['title', 'body'],
    include: { user: 'users' },
  },
  products: {
    filters: ['status', 'sku', 'currency'],
    ranges: ['price_amount'],
    sorts: ['name', 'sku', 'price_amount', 'created_at'],
    search: ['sku', 'name', 'description'],
    include: {},
  },
  orders: {
    filters: ['status', 'user_id', 'number'],
    ranges: ['total_amount'],
    sorts: ['number', 'total_amount', 'created_at', 'updated_at'],
    search: ['number', 'note'],
    include: { user: 'users', products: 'products' },
  },
}

t.test('the lists have the promised filters, sorts, searched fields and relations', async (t) => {
  for (const definition of definitions) {
    const { name, filters, ranges = [], sorts, search, relations } = definition
    const promised = PROMISED[name]
    if (!promised) continue
    const include = Object.entries(relations).flatMap(([field, { to }]) => {
      const related = definitions.find(({ table }) => table === to)
      return related ? [[field, related.name]] : []
    })
    const promisedInclude = Object.entries(promised.include).filter(([, to]) => isRegistered(to))
    t.same(
      { filters, ranges, sorts: Object.keys(sorts), search, include },
      { ...promised, include: promisedInclude },
      locateDefinition(definition, 'filters'),
    )
  }
})

/** Returns the missing indexes of a definition, as messages with file and line. */
const findMissingIndexes = (definition: ResourceDefinition): string[] => [
  ...findFilterMistakes(definition).map(
    (mistake) => `${locateDefinition(definition, 'filters')}: ${mistake} (${locateTable(definition)})`,
  ),
  ...findSortMistakes(definition).map(
    (mistake) => `${locateDefinition(definition, 'sorts')}: ${mistake} (${locateTable(definition)})`,
  ),
]

for (const definition of definitions) {
  t.test(`${definition.name}: every filter and every sort has an index`, async (t) => {
    for (const message of findMissingIndexes(definition)) t.fail(message)
  })

  t.test(`${definition.name}: the examples of its schemas are valid`, async (t) => {
    const { create, change } = definition.schemas
    for (const [schema, example] of [
      [create, buildExample(create)],
      [change, change.examples?.[0] ?? {}],
    ] as const) {
      const isValid = compileSchema(schema)
      // A field with a default may be absent.
      const defaults = Object.fromEntries(
        Object.entries(schema.properties).flatMap(([field, { default: value }]) =>
          value === undefined ? [] : [[field, value]],
        ),
      )
      const whole = schema === create ? { ...defaults, ...Object(example) } : example
      const found = isValid(whole)
        ? []
        : (isValid.errors ?? []).filter(({ keyword }) => schema === create || keyword !== 'required')
      for (const { instancePath, message } of found) {
        t.fail(
          `${locateSchema(schema.title)}: the example of ${schema.title} is not valid: ${instancePath} ${message}`,
        )
      }
    }
  })
}

t.test(
  'a filter and a sort without an index are reported with the file and the line of the definition',
  async (t) => {
    const mistaken = {
      ...productsResource,
      filters: ['description'],
      ranges: [],
      sorts: { stock: products.stock },
    }
    const [filter = '', sort = '', ...others] = findMissingIndexes(mistaken)
    t.match(filter, /^plugins\/resources\/products\.ts:\d+: filter "description" has no index /)
    t.match(filter, /\(drizzle\/tables\.ts:\d+\)$/)
    t.match(sort, /^plugins\/resources\/products\.ts:\d+: sort "stock" has no index on \(stock, id\)/)
    t.same(others, [])
  },
)
