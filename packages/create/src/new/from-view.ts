/** `--from customer_sales` of a view: PostgreSQL knows the types of its columns, and `--fields` what it does not know. */
import type { Database } from '@resource-api/database'
import { avoidScans, findRepeatedKey, findScannedTables } from '@resource-api/resources/internal'
import { sql } from 'drizzle-orm'
import { UsageError } from '../usage-error.ts'
import { readOwner } from './access.ts'
import { readFields } from './fields.ts'
import { COMMON, type Column, readField } from './from-table.ts'
import { quote } from './names.ts'
import type { Answers, ExistingTable, KnownResource } from './resource-plan.ts'
import type { Field, TypeName } from './types.ts'

/** A view of the database. */
interface View {
  sqlName: string
  isMaterialized: boolean
  columns: readonly Column[]
}

/** The options of resources that are written. */
const WRITING = ['on-delete', 'states', 'states-by', 'unique', 'actions'] as const

/** The types of columns that have another name in `--fields`. */
const COLUMN_TYPES: Partial<Record<TypeName, TypeName>> = {
  ...{ text: 'multiline', email: 'multiline', url: 'multiline', enum: 'multiline', currency: 'multiline' },
  ...{ money: 'integer', ref: 'uuid' },
}

const isGiven = (answer: string | undefined) => answer !== undefined && answer !== 'none'

/** Returns the options that do not fit a view, and the columns that it lacks. */
function* findMistakes({ sqlName, columns }: View, { key, search, isRestorable, ...answers }: Answers) {
  const find = (name: string) => columns.find((column) => column.name === name)
  const options = [
    ...WRITING.filter((option) => answers[option] !== undefined),
    ...(isRestorable ? ['restore'] : []),
  ]
  for (const option of options) yield `--${option}: ${sqlName} is a view, which is only read`
  if (find(key ?? 'id')?.type !== 'uuid')
    yield key === undefined
      ? `--from: the view ${sqlName} has no column id of the type uuid; name its key, as in --key user_id`
      : `--key: the view ${sqlName} has no column "${key}" of the type uuid; a text becomes one with md5(${key})::uuid`
  for (const name of ['created_at', 'updated_at'])
    if (!/^timestamp(\(\d\))? with time zone$/.test(find(name)?.type ?? ''))
      yield `--from: the view ${sqlName} has no ${name} of the type timestamptz, which every resource has`
  if (isGiven(search) && !(find('search')?.type === 'text' && find('search')?.is_c))
    yield `--search: the view ${sqlName} has no column search; select that of a table, as in u.search`
}

/** Returns a field of `--fields` with its column. @throws UsageError if no value of the column fits the field */
function declareField(declared: Field, found: Field | undefined): Field {
  const { name, type, isNullable, isImmutable, isReadOnly, isComputed, default: initial } = declared
  if (!found)
    throw new UsageError(
      `the view has no column "${name}" of a type that resources have; it can cast one, as in ${name}::bigint`,
    )
  if (isImmutable || isReadOnly || isComputed || initial !== undefined)
    throw new UsageError(`${name}: a view is only read; leave out "!", "=", readonly and computed`)
  if ((COLUMN_TYPES[type] ?? type) !== found.type)
    throw new UsageError(`${name}: the column is of the type ${found.type}, and not ${type}`)
  const typed = type === 'enum' ? `.$type<${declared.values.map(quote).join(' | ')}>()` : ''
  return { ...declared, column: `${found.column}${typed}${isNullable ? '' : '.notNull()'}` }
}

/** Returns what the rows lack: keys that are unique, and values of the required columns. */
const findRowMistakes = (
  database: Database,
  sqlName: string,
  key: string,
  required: readonly string[],
): Promise<string[]> =>
  database.transaction(async (tx) => {
    const view = sql.identifier(sqlName)
    const repeated = await findRepeatedKey(tx, view, sql.identifier(key))
    if (repeated !== undefined)
      return [`--key: rows of ${sqlName} share the ${key} ${repeated}, which must be unique and not null`]
    const checks = required.map(
      (name) => sql`bool_or(${sql.identifier(name)} is null) as ${sql.identifier(name)}`,
    )
    const [lacks = {}] = await tx.execute<Record<string, boolean | null>>(
      sql`select ${sql.join(checks, sql`, `)} from ${view}`,
    )
    return required
      .filter((name) => lacks[name])
      .map(
        (name) =>
          `--from: rows of ${sqlName} have no ${name}; coalesce it in the view, or write ${name}:TYPE?`,
      )
  })

/** Returns what reads all rows of a table: `id`, and the filters, which are names of fields and `{field}_null`. */
const findScans = (
  database: Database,
  sqlName: string,
  columns: readonly Column[],
  key: string,
): Promise<string[]> =>
  database.transaction(async (tx) => {
    await avoidScans(tx)
    const scans: string[] = []
    const compared = [
      { parameter: 'id', name: key, type: 'uuid' },
      ...columns.flatMap(({ name, type }) => [
        { parameter: name, name, type },
        { parameter: `${name}_null`, name, type: undefined },
      ]),
    ]
    for (const { parameter, name, type } of compared) {
      // A small table may grow. One that was never analyzed has -1 rows.
      const options = { column: sql.identifier(name), type, minRows: -1 }
      const scanned = await findScannedTables(tx, sql.identifier(sqlName), options)
      if (scanned.length > 0) scans.push(parameter)
    }
    return scans
  })

/**
 * Reads a view. The column of the key is the id of a row, and a field with its own name too.
 * @throws UsageError with the reasons why no collection can be read from it
 */
export async function readView(
  database: Database,
  view: View,
  answers: Answers,
  known: readonly KnownResource[],
) {
  const { sqlName, isMaterialized, columns } = view
  const problems = [...findMistakes(view, answers)]
  const attempt = <T>(option: string, work: () => T): T | undefined => {
    try {
      return work()
    } catch (error) {
      if (!(error instanceof UsageError)) throw error
      problems.push(`--${option}: ${error.message}`)
      return undefined
    }
  }
  const { key = 'id', search } = answers
  const owner = attempt('owner', () => readOwner(answers.owner).column)
  const read = columns
    .filter(({ name }) => !['id', 'search'].includes(name) && !Object.hasOwn(COMMON, name))
    .map((column) => readField(column, [], known))
  const found = read.flatMap((field) => (typeof field === 'string' ? [] : [field]))
  const declared = readFields(answers.fields ?? '', (message) => problems.push(`--fields: ${message}`))
  const changed = declared.fields.flatMap((each) => {
    const column = found.find(({ name }) => name === each.name)
    return attempt('fields', () => declareField(each, column)) ?? []
  })
  const fields = found.map((field): Field => {
    const isRequired = field.name === key || field.name === owner
    const required = { ...field, isNullable: false, column: `${field.column}.notNull()` }
    return changed.find(({ name }) => name === field.name) ?? (isRequired ? required : field)
  })
  const required = fields.flatMap(({ name, isNullable }) => (isNullable ? [] : [name]))
  if (problems.length === 0)
    problems.push(
      ...(await findRowMistakes(database, sqlName, key, ['created_at', 'updated_at', ...required])),
    )
  if (problems.length > 0) throw new UsageError(problems.join('\n'))
  const shown = columns.filter(({ name }) => fields.some((field) => field.name === name))
  const scans = await findScans(database, sqlName, shown, key)
  return {
    ...{ fields, sqlName, unique: [], uniqueIndex: undefined },
    ...{ commonColumns: [], checks: [], foreignKeys: [] },
    left: read.filter((field) => typeof field === 'string'),
    view: { key, isMaterialized, isSearched: isGiven(search), scans },
  } satisfies ExistingTable & { fields: Field[]; left: string[]; unique: string[] }
}
