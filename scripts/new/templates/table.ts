/** The template of `drizzle/tables/{name}.ts`. */
import { toWords } from '../../../packages/http/src/lib/to-words.ts'
import type { Field } from '../fields.ts'
import type { Reference, ResourcePlan } from '../resource-plan.ts'
import { importTables, importUsed, literal, quote } from './code.ts'
import { getNullSort } from './null-sort.ts'

const columnTypes: Record<Exclude<Field['type'], 'enum' | 'ref' | 'decimal'>, string> = {
  text: 'text()',
  multiline: 'text()',
  texts: 'jsonb().$type<string[]>()',
  email: 'text()',
  url: 'text()',
  currency: 'text()',
  integer: 'integer()',
  money: 'integer()',
  boolean: 'boolean()',
  uuid: 'uuid()',
  time: 'time()',
  date: 'date()',
  timestamp: 'moment()',
}

const writeReference = ({ column, table, cascades }: Reference, isNullable = false) =>
  `${column}: uuid()${isNullable ? '' : '.notNull()'}.references(() => ${table}.id${cascades ? ", { onDelete: 'cascade' }" : ''}),`

function getColumnType(field: Exclude<Field, { type: 'ref' }>): string {
  if (field.type === 'decimal') return `numeric({ precision: ${field.precision}, scale: ${field.scale} })`
  if (field.type !== 'enum') return columnTypes[field.type]
  return `text().$type<${field.values.map((value) => `'${value}'`).join(' | ')}>()`
}

export function writeColumn(plan: ResourcePlan, field: Field): string {
  if (field.type === 'ref') {
    const reference = plan.references.find(({ column }) => column === field.name)
    return reference ? writeReference(reference, field.isNullable) : ''
  }
  const type = getColumnType(field)
  const initial = field.default === undefined ? '' : `.default(${literal(field.default)})`
  return `${field.name}: ${type}${field.isNullable ? '' : '.notNull()'}${initial},`
}

/** Under a parent, an index begins with its column. */
const writeIndex = ({ table, parent }: ResourcePlan, suffix: string, columns: readonly string[]) =>
  `index('${table}_${suffix}').on(${[...(parent ? [`t.${parent.column}`] : []), ...columns, 't.id'].join(', ')}),`

/** Returns the searched field that lists filter by with a prefix: the first one, if it is one line and never null. */
export function getPrefix({ search, fields }: ResourcePlan): string[] {
  const field = fields.find(({ name }) => name === search[0])
  const isLine = field?.type === 'text' || field?.type === 'email'
  return field && isLine && !field.isNullable ? [field.name] : []
}

/** The indexes of the fields of lists. Those of fields that alone are unique exist already. */
export function writeFieldIndexes(plan: ResourcePlan): string[] {
  const { parent, unique } = plan
  const isUnique = (name: string) => unique.length === 1 && unique[0] === name
  const sorts = plan.sorts.flatMap((name) => {
    const field = plan.fields.find((each) => each.name === name)
    if (isUnique(name) && !parent) return []
    if (!field?.isNullable) return [writeIndex(plan, name, [`t.${name}`])]
    const { ascending, descending } = getNullSort(field, `t.${name}`)
    return [
      writeIndex(plan, `${name}_asc`, [`sql\`(${ascending})\``]),
      writeIndex(plan, `${name}_desc`, [`sql\`(${descending})\``]),
    ]
  })
  const filters = plan.filters
    .filter((name) => !isUnique(name))
    .map((name) =>
      writeIndex(plan, plan.sorts.includes(name) ? `${name}_filter` : name, [`t.${name}`, 't.created_at']),
    )
  return [...sorts, ...filters]
}

/** The indexes of foreign keys that no other index begins with. */
export function writeKeyIndexes({ table, parent, unique, filters, references }: ResourcePlan): string[] {
  const leading = new Set([parent?.column, unique[0], ...(parent ? [] : filters)])
  return references
    .filter(({ column }) => !leading.has(column))
    .map(({ column }) => `index('${table}_${column}_key').on(t.${column}),`)
}

/** Each sort, filter and foreign key has an index; under a parent, all but those of keys begin with its column. */
function writeIndexes(plan: ResourcePlan): string[] {
  const { table, parent, unique } = plan
  return [
    ...(unique.length > 0
      ? [
          `uniqueIndex('${[table, ...unique].join('_')}_unique').on(${unique.map((name) => `t.${name}`).join(', ')}),`,
        ]
      : []),
    writeIndex(plan, 'created_at', ['t.created_at']),
    writeIndex(plan, 'updated_at', ['t.updated_at']),
    ...writeFieldIndexes(plan),
    ...writeKeyIndexes(plan),
    ...getPrefix(plan).map(
      (name) =>
        `index('${table}_${name}_prefix').on(${parent ? `t.${parent.column}, ` : ''}foldedLine(t.search, 1)),`,
    ),
    ...(plan.search.length > 0 && !parent ? [`trigrams('${table}_search', sql\`\${t.search}\`),`] : []),
  ]
}

/** Returns the path by which a table imports another one. */
export const toModule = (file: string) =>
  file.startsWith('tables/') ? file.replace('tables', '.') : '@resource-api/database'

export function writeTable(plan: ResourcePlan): string {
  const fixed = [...new Set([plan.parent, plan.owner])].flatMap((each) =>
    each ? [writeReference(each)] : [],
  )
  const code = `
export const ${plan.variable} = pgTable(
  ${quote(plan.table)},
  {
    ...common(),
    ${[...fixed, ...plan.fields.map((field) => writeColumn(plan, field))].join('\n    ')}
    ${plan.search.length > 0 ? 'search: folded(),' : ''}
  },
  (t) => [
    ${writeIndexes(plan).join('\n    ')}
  ],
)
`
  return `/** The table of ${toWords(plan.name)}. */
${importUsed(['sql'], 'drizzle-orm', code)}${importUsed(drizzleHelpers, 'drizzle-orm/pg-core', code)}${importUsed(columnHelpers, '@resource-api/database', code)}${importTables(plan.references, toModule, code)}${code}`
}

/** The functions that tables may need. */
export const drizzleHelpers = 'boolean date index jsonb numeric pgTable time uniqueIndex uuid'.split(' ')
export const columnHelpers = ['common', 'folded', 'foldedLine', 'integer', 'moment', 'text', 'trigrams']
