/** The definitions keep what the API promises of lists. Indexes and examples are checked at each start. */
import t from 'tap'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import { definitions, isRegistered, locateDefinition } from '../helpers/definitions.ts'

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
    include: { profile: 'user-profiles' },
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
