/** The template of `drizzle/tables/{name}.ts`. */
import { toWords } from '../../../lib/to-words.ts'
import type { Field } from '../fields.ts'
import type { Reference, ResourcePlan } from '../resource-plan.ts'
import { importTables, importUsed, literal, quote } from './code.ts'
import { getNullSort } from './null-sort.ts'

const columnTypes: Record<Exclude<Field['type'], 'enum' | 'ref'>, string> = {
  text: 'text()',
  multiline: 'text()',
  url: 'text()',
  currency: 'text()',
  integer: 'integer()',
  money: 'integer()',
  boolean: 'boolean()',
  date: 'date()',
  timestamp: 'moment()',
}

const writeReference = ({ column, table, cascades }: Reference, isNullable = false) =>
  `${column}: uuid()${isNullable ? '' : '.notNull()'}.references(() => ${table}.id${cascades ? ", { onDelete: 'cascade' }" : ''}),`

function writeColumn(plan: ResourcePlan, field: Field): string {
  if (field.type === 'ref') {
    const reference = plan.references.find(({ column }) => column === field.name)
    return reference ? writeReference(reference, field.isNullable) : ''
  }
  const type =
    field.type === 'enum'
      ? `text().$type<${field.values.map((value) => `'${value}'`).join(' | ')}>()`
      : columnTypes[field.type]
  const initial = field.default === undefined ? '' : `.default(${literal(field.default)})`
  return `${field.name}: ${type}${field.isNullable ? '' : '.notNull()'}${initial},`
}

/** Each sort, filter and foreign key has an index; under a parent, all but those of keys begin with its column. */
function writeIndexes(plan: ResourcePlan): string[] {
  const { table, parent, unique } = plan
  const prefix = parent ? [`t.${parent.column}`] : []
  const write = (suffix: string, columns: readonly string[]) =>
    `index('${table}_${suffix}').on(${[...prefix, ...columns, 't.id'].join(', ')}),`
  const isUnique = (name: string) => unique.length === 1 && unique[0] === name
  const sorts = plan.sorts.flatMap((name) => {
    const field = plan.fields.find((each) => each.name === name)
    if (isUnique(name) && !parent) return []
    if (!field?.isNullable) return [write(name, [`t.${name}`])]
    const { ascending, descending } = getNullSort(field, `t.${name}`)
    return [
      write(`${name}_asc`, [`sql\`(${ascending})\``]),
      write(`${name}_desc`, [`sql\`(${descending})\``]),
    ]
  })
  const filters = plan.filters
    .filter((name) => !isUnique(name))
    .map((name) => write(name, [`t.${name}`, 't.created_at']))
  const leading = new Set([parent?.column, unique[0], ...(parent ? [] : plan.filters)])
  const foreignKeys = plan.references
    .filter(({ column }) => !leading.has(column))
    .map(({ column }) => `index('${table}_${column}_key').on(t.${column}),`)
  return [
    ...(unique.length > 0
      ? [
          `uniqueIndex('${[table, ...unique].join('_')}_unique').on(${unique.map((name) => `t.${name}`).join(', ')}),`,
        ]
      : []),
    write('created_at', ['t.created_at']),
    write('updated_at', ['t.updated_at']),
    ...sorts,
    ...filters,
    ...foreignKeys,
    ...(plan.search.length > 0 && !parent ? [`trigrams('${table}_search', sql\`\${t.search}\`),`] : []),
  ]
}

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
  const toModule = (file: string) => (file.startsWith('tables/') ? file.replace('tables', '.') : `../${file}`)
  return `/** The table of ${toWords(plan.name)}. */
${importUsed(['sql'], 'drizzle-orm', code)}${importUsed(['boolean', 'date', 'index', 'pgTable', 'uniqueIndex', 'uuid'], 'drizzle-orm/pg-core', code)}${importUsed(['common', 'folded', 'integer', 'moment', 'text', 'trigrams'], '../columns.ts', code)}${importTables(plan.references, toModule, code)}${code}`
}
