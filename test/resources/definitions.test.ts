/** The definitions keep what the API promises of lists, and what every definition needs: indexes and valid examples. */
import { type SQL, sql } from 'drizzle-orm'
import { getTableConfig, PgDialect } from 'drizzle-orm/pg-core'
import t from 'tap'
import { products } from '../../drizzle/tables.ts'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import type { ResourceTable, SortKey } from '../../plugins/collection/resource-table.ts'
import { buildExample } from '../../plugins/openapi/examples.ts'
import { productsResource } from '../../plugins/resources/products.ts'
import { compileSchema, createAjv } from '../../plugins/validation/formats.ts'
import { definitions, locateDefinition, locateSchema, locateTable } from '../helpers/definitions.ts'

/** What clients rely on; it does not follow from the definitions. A resource that is not registered is ignored. */
const PROMISED: Record<
  string,
  Pick<ResourceDefinition, 'filters' | 'search'> & Record<'sorts' | 'include', string[]>
> = {
  users: {
    filters: ['status', 'role'],
    sorts: ['name', 'email', 'created_at', 'updated_at'],
    search: ['name', 'email'],
    include: ['orders', 'posts', 'profile'],
  },
  'user-profiles': {
    filters: ['user_id'],
    sorts: ['display_name', 'created_at', 'updated_at'],
    search: ['display_name', 'bio'],
    include: ['user'],
  },
  posts: {
    filters: ['status'],
    sorts: ['title', 'published_at', 'created_at', 'updated_at'],
    search: ['title', 'body'],
    include: ['user'],
  },
  products: {
    filters: ['status'],
    sorts: ['name', 'sku', 'price_amount', 'created_at'],
    search: ['sku', 'name', 'description'],
    include: [],
  },
  orders: {
    filters: ['status', 'user_id'],
    sorts: ['number', 'total_amount', 'created_at', 'updated_at'],
    search: ['number', 'note'],
    include: ['user', 'products'],
  },
}

t.test('the lists have the promised filters, sorts, searched fields and relations', async (t) => {
  for (const definition of definitions) {
    const { name, filters, sorts, search, relations } = definition
    const promised = PROMISED[name]
    if (!promised) continue
    const isRegistered = (to: ResourceTable) => definitions.some(({ table }) => table === to)
    const include = Object.entries(relations).flatMap(([field, { to }]) => (isRegistered(to) ? [field] : []))
    // A relation to a resource that is not registered is absent.
    const expected = promised.include.filter((field) => include.includes(field) || !(field in relations))
    t.same(
      { filters, sorts: Object.keys(sorts), search, include },
      { ...promised, include: expected },
      locateDefinition(definition, 'filters'),
    )
  }
})

const dialect = new PgDialect()

/** Returns an expression without the parentheses that an index needs around it. */
const toText = (expression: SQL) => {
  const text = dialect.sqlToQuery(expression).sql
  return text.startsWith('(') && text.endsWith(')') ? text.slice(1, -1) : text
}

interface Index {
  columns: string[]
  isUnique: boolean
}

const readIndexes = ({ table }: ResourceDefinition): Index[] =>
  getTableConfig(table)
    .indexes.filter(({ config }) => !config.where && config.method !== 'gin')
    .map(({ config }) => ({
      columns: config.columns.map((column) =>
        'name' in column ? String(column.name) : toText(sql`${column}`),
      ),
      isUnique: config.unique,
    }))

/** Returns the columns that an index for a sort has, in each direction. */
function getSortColumns(key: SortKey): string[] {
  return 'ascending' in key ? [toText(key.ascending), toText(key.descending)] : [key.name]
}

/** Returns what an index lacks for the lists of a definition, as messages with file and line. */
function findMissingIndexes(definition: ResourceDefinition): string[] {
  const { name, parent, filters, sorts } = definition
  const indexes = readIndexes(definition)
  const prefix = parent ? [parent.member] : []
  const has = (columns: readonly string[]) =>
    indexes.some(({ columns: present }) => columns.every((column, i) => present[i] === column))
  const isUnique = (column: string) =>
    indexes.some(({ columns, isUnique: unique }) => unique && columns.length === 1 && columns[0] === column)
  const advise = (property: string, what: string, columns: readonly string[]) =>
    `${locateDefinition(definition, property)}: the ${what} of ${name} has no index; add one on (${[...prefix, ...columns].join(', ')}) in ${locateTable(definition)}`
  return [
    ...filters
      .filter((filter) => !has([...prefix, filter]) && !isUnique(filter))
      .map((filter) => advise('filters', `filter "${filter}"`, [filter, 'created_at', 'id'])),
    ...Object.entries(sorts).flatMap(([sort, key]) =>
      getSortColumns(key)
        .filter((column) => !has([...prefix, column, 'id']) && !isUnique(column))
        .map((column) => advise('sorts', `sort "${sort}"`, [column, 'id'])),
    ),
  ]
}

for (const definition of definitions) {
  t.test(`${definition.name}: every filter and every sort has an index`, async (t) => {
    for (const message of findMissingIndexes(definition)) t.fail(message)
  })

  t.test(`${definition.name}: the examples of its schemas are valid`, async (t) => {
    const { create, change } = definition.schemas
    const ajv = createAjv()
    for (const [schema, example] of [
      [create, buildExample(create)],
      [change, change.examples?.[0] ?? {}],
    ] as const) {
      const isValid = compileSchema(ajv, schema)
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
    const mistaken = { ...productsResource, filters: ['description'], sorts: { stock: products.stock } }
    const [filter = '', sort = '', ...others] = findMissingIndexes(mistaken)
    t.match(
      filter,
      /^plugins\/resources\/products\.ts:\d+: the filter "description" of products has no index; /,
    )
    t.match(filter, /add one on \(description, created_at, id\) in drizzle\/tables\.ts:\d+$/)
    t.match(sort, /^plugins\/resources\/products\.ts:\d+: the sort "stock" of products has no index; /)
    t.same(others, [])
  },
)
