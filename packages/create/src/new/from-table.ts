/**
 * `--from invoices`: reads a table that exists in the database: columns, keys, checks, references. `drizzle-kit pull` writes
 * such tables as code, without the bounds and values that checks state, and for all tables of the database.
 */
import type { Database } from '@resource-api/database'
import { sql } from 'drizzle-orm'
import { UsageError } from '../usage-error.ts'
import { checkFieldName } from './fields.ts'
import { escapeTemplate, quote } from './names.ts'
import type { ExistingTable, KnownResource } from './resource-plan.ts'
import type { Field } from './types.ts'

export type Column = {
  name: string
  /** As `format_type` of PostgreSQL writes it. */
  type: string
  /** Whether it sorts by code point, as the texts of resources do. */
  is_c: boolean
  is_required: boolean
  /** The expression. */
  default_value: string | null
  is_generated: boolean
}

type Constraint = {
  name: string
  kind: 'c' | 'f' | 'p' | 'u'
  definition: string
  /** Of a check. */
  expression: string | null
  /** The names of the columns, separated by commas. */
  columns: string
  foreign_table: string | null
  cascades: boolean
}

export const selectColumns = (
  table: string,
) => sql`select a.attname as name, format_type(a.atttypid, a.atttypmod) as type,
    a.attcollation = 950 as is_c, a.attnotnull as is_required, pg_get_expr(d.adbin, d.adrelid) as default_value,
    a.attgenerated <> '' or a.attidentity <> '' as is_generated
  from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  where a.attrelid = to_regclass(${table}) and a.attnum > 0 and not a.attisdropped order by a.attnum`

const selectConstraints = (table: string) => sql`select c.conname as name, c.contype as kind,
    pg_get_constraintdef(c.oid) as definition, pg_get_expr(c.conbin, c.conrelid) as expression,
    (select string_agg(a.attname, ',' order by k.place) from unnest(c.conkey) with ordinality k(number, place)
      join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.number) as columns,
    (select relname from pg_class where pg_class.oid = c.confrelid) as foreign_table, c.confdeltype = 'c' as cascades
  from pg_constraint c where c.conrelid = to_regclass(${table}) and c.contype in ('c', 'f', 'p', 'u') order by c.conname`

/** The columns of `common()`, with their types in `create table`. */
export const COMMON: Readonly<Record<string, string>> = {
  created_at: 'timestamp (6) with time zone DEFAULT now() NOT NULL',
  updated_at: 'timestamp (6) with time zone DEFAULT now() NOT NULL',
  revision: 'bigint DEFAULT 1 NOT NULL',
}

const INTEGERS: Readonly<Record<string, readonly [declared: string, limit: number]>> = {
  smallint: ['pg.smallint()', 32_767],
  integer: ['pg.integer()', 2_147_483_647],
  bigint: ["pg.bigint({ mode: 'number' })", Number.MAX_SAFE_INTEGER],
}

/** Names that are the same in SQL with and without quotes, or differ in case only, and are names of properties in code. */
const CONSTRAINT_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/

/** A literal of a text, as PostgreSQL writes it: `'it''s'`, or `E'a\\b'` if it has a backslash. */
const TEXT_LITERAL = /(E?)'((?:[^']|'')*)'/

/** Returns the text of a literal. */
function readLiteral(prefix = '', quoted = ''): string {
  const text = quoted.replaceAll("''", "'")
  return prefix === '' ? text : text.replaceAll('\\\\', '\\')
}

/** The longest texts that a column without a length has in the API. */
const MAX_LENGTH = 5_000

/** Returns the type and the declaration of a column; undefined for types that resources do not have. */
function readType({ type, is_c }: Column, checks: readonly Constraint[]) {
  const definitions = checks.map(({ expression }) => expression).join(' ')
  const values = /= ANY \(\(?ARRAY\[(.*?)\]/.exec(definitions)?.[1]
  const texts = [...(values ?? '').matchAll(new RegExp(TEXT_LITERAL, 'g'))].map(([, prefix, value]) =>
    readLiteral(prefix, value),
  )
  const column = is_c && type === 'text' ? 'text()' : 'pg.text()'
  const [varchar, length] = /^character varying(?:\((\d+)\))?$/.exec(type) ?? []
  if (type === 'text' || varchar !== undefined) {
    const options = length === undefined ? '' : `{ length: ${length} }`
    const declared = varchar === undefined ? column : `pg.varchar(${options})`
    return texts.length > 1
      ? ({
          type: 'enum',
          values: texts,
          column: `${declared}.$type<${texts.map(quote).join(' | ')}>()`,
        } as const)
      : ({ type: 'multiline', min: 0, max: Number(length ?? MAX_LENGTH), column: declared } as const)
  }
  const [declared, limit] = INTEGERS[type] ?? []
  if (declared !== undefined && limit !== undefined) {
    const least = Number(
      />= '?\(?(-?\d+)/.exec(definitions)?.[1] ??
        Number(/> '?\(?(-?\d+)/.exec(definitions)?.[1] ?? -limit - 1) + 1,
    )
    const greatest = Number(
      /<= '?\(?(-?\d+)/.exec(definitions)?.[1] ??
        Number(/< '?\(?(-?\d+)/.exec(definitions)?.[1] ?? limit + 1) - 1,
    )
    return {
      type: 'integer',
      min: Math.max(least, -limit),
      max: Math.min(greatest, limit),
      column: declared,
    } as const
  }
  const [, precision, scale] = /^numeric\((\d+),(\d+)\)$/.exec(type) ?? []
  if (precision !== undefined && scale !== undefined)
    return {
      type: 'decimal',
      precision: Number(precision),
      scale: Number(scale),
      column: `pg.numeric({ precision: ${precision}, scale: ${scale} })`,
    } as const
  const [moment, digits] = /^timestamp(?:\((\d)\))? with time zone$/.exec(type) ?? []
  if (moment !== undefined) {
    const options = `{ withTimezone: true, mode: 'string'${digits === undefined ? '' : `, precision: ${digits}`} }`
    return { type: 'timestamp', column: `pg.timestamp(${options})` } as const
  }
  switch (type) {
    case 'boolean':
      return { type, column: 'pg.boolean()' } as const
    case 'uuid':
      return { type, column: 'pg.uuid()' } as const
    case 'date':
      return { type, column: 'pg.date()' } as const
    case 'time without time zone':
      return { type: 'time', column: 'pg.time()' } as const
    default:
      return undefined
  }
}

/** Returns the default of a column as a value of its field; undefined if it is an expression, such as `now()`. */
function readDefault(field: Pick<Field, 'type'>, expression: string | null) {
  const literal = new RegExp(`^${TEXT_LITERAL.source}(?:::[\\w ()]+)?$`).exec(expression ?? '')
  const text = literal ? readLiteral(literal[1], literal[2]) : undefined
  const plain = /^\(?(-?\d+(?:\.\d+)?)\)?(?:::\w+)?$|^(true|false)$/.exec(expression ?? '')
  if (field.type === 'integer')
    return plain ? Number(plain[1]) : text === undefined ? undefined : Number(text)
  if (field.type === 'boolean') return plain ? expression === 'true' : undefined
  if (field.type === 'enum' || field.type === 'multiline') return text
  return field.type === 'decimal' ? (plain?.[1] ?? text) : undefined
}

export function readField(
  column: Column,
  constraints: readonly Constraint[],
  known: readonly KnownResource[],
): Field | string {
  const { name, type, is_required, default_value, is_generated } = column
  try {
    checkFieldName(name)
  } catch (error) {
    if (error instanceof UsageError) return `the column ${error.message}`
    throw error
  }
  const own = constraints.filter(({ columns }) => columns === name)
  const read = readType(
    column,
    own.filter(({ kind }) => kind === 'c'),
  )
  if (!read) return `${name}: resources have no column of the type ${type}`
  const key = own.find(({ kind }) => kind === 'f')
  const to =
    key && read.type === 'uuid' ? known.find(({ table }) => table?.sqlName === key.foreign_table) : undefined
  const initial = readDefault(read, default_value)
  // What the database computes, such as a number of a sequence, only it sets.
  const isReadOnly = is_generated || (default_value !== null && initial === undefined)
  const server = isReadOnly ? `.default(sql\`${escapeTemplate(default_value ?? '')}\`)` : ''
  if (is_generated) return `${name}: it is generated; declare it in the table and the schema by hand`
  const field = {
    name,
    isNullable: !is_required,
    ...{ isImmutable: false, isReadOnly, isComputed: false, position: 0 },
    ...(initial !== undefined && is_required && { default: initial }),
  }
  const written =
    initial === undefined ? server : `.default(${typeof initial === 'string' ? quote(initial) : initial})`
  const declared = `${read.column}${is_required ? '.notNull()' : ''}${written}`
  if (to) return { ...field, type: 'ref', to: to.name, cascades: key?.cascades ?? false }
  return { ...field, ...read, column: declared }
}

/**
 * Reads a table.
 * @returns the fields, and the columns that are left out with the reason
 * @throws UsageError if no resource can be stored in the table
 */
export async function readTable(database: Database, sqlName: string, known: readonly KnownResource[]) {
  const columns = await database.execute<Column>(selectColumns(sqlName))
  const constraints = await database.execute<Constraint>(selectConstraints(sqlName))
  const id = columns.find((column) => column.name === 'id')
  if (id?.type !== 'uuid' || !constraints.some(({ kind, columns: key }) => kind === 'p' && key === 'id'))
    throw new UsageError(
      `--from: the primary key of ${sqlName} is not a column id of the type uuid, which every resource has. Rename the old key, add "id uuid default gen_random_uuid()" as the primary key, and let references follow`,
    )
  const others = columns.filter((column) => column.name !== 'id' && !Object.hasOwn(COMMON, column.name))
  const read = others.map((column) => ({ column, field: readField(column, constraints, known) }))
  const required = read.flatMap(({ column, field }) =>
    typeof field === 'string' && column.is_required && column.default_value === null && !column.is_generated
      ? [field]
      : [],
  )
  if (required.length > 0)
    throw new UsageError(required.map((each) => `--from: ${each}, and it is required`).join('\n'))
  const fields = read.flatMap(({ field }) => (typeof field === 'string' ? [] : [field]))
  const isField = (column: string) => fields.some((field) => field.name === column)
  const own = constraints.filter(({ columns: key }) => key.split(',').every(isField))
  const unnamed = own.filter(({ kind, name }) => kind !== 'p' && !CONSTRAINT_NAME.test(name))
  if (unnamed.length > 0)
    throw new UsageError(
      unnamed
        .map(
          (each) =>
            `--from: the name of the constraint "${each.name}" has other characters than letters, digits and "_": rename it`,
        )
        .join('\n'),
    )
  const [unique] = own.filter(({ kind }) => kind === 'u')
  return {
    fields,
    left: read.flatMap(({ field }) => (typeof field === 'string' ? [field] : [])),
    unique: unique?.columns.split(',') ?? [],
    sqlName,
    commonColumns: columns.flatMap((column) => (Object.hasOwn(COMMON, column.name) ? [column.name] : [])),
    uniqueIndex: unique?.name,
    checks: own.flatMap(({ name, expression, columns: key }) =>
      expression === null ? [] : [{ name, expression, fields: key.split(',') }],
    ),
    foreignKeys: own.flatMap(({ name, kind, definition }) =>
      kind === 'f' ? [`CONSTRAINT "${name}" ${definition}`] : [],
    ),
  } satisfies ExistingTable & { fields: Field[]; left: string[]; unique: string[] }
}

/**
 * Changes the migration that drizzle-kit wrote for a new table: where the table exists, it only adds what is missing, and a
 * new database, such as that of a test, gets the whole table.
 */
export function adaptMigration(
  migration: string,
  { sqlName, commonColumns, foreignKeys }: ExistingTable,
): string {
  const [create = '', ...rest] = migration.split('--> statement-breakpoint\n')
  const keys = foreignKeys.map((key) => `,\n\t${key}`).join('')
  const whole = create
    .replace('CREATE TABLE ', 'CREATE TABLE IF NOT EXISTS ')
    .replace(/\n\);\n?$/, () => `${keys}\n);`)
  const added = Object.entries(COMMON).flatMap(([column, type]) => {
    if (!commonColumns.includes(column))
      return [`ALTER TABLE "${sqlName}" ADD COLUMN IF NOT EXISTS "${column}" ${type};`]
    const [base] = type.split(' DEFAULT ')
    const initial = column === 'revision' ? '1' : 'now()'
    return [
      `UPDATE "${sqlName}" SET "${column}" = ${initial} WHERE "${column}" IS NULL;`,
      `ALTER TABLE "${sqlName}" ALTER COLUMN "${column}" TYPE ${base}, ALTER COLUMN "${column}" SET DEFAULT ${initial}, ALTER COLUMN "${column}" SET NOT NULL;`,
    ]
  })
  const indexes = rest
    .filter((statement) => !statement.includes(' FOREIGN KEY '))
    .map((statement) => statement.trim().replace(/^(CREATE (?:UNIQUE )?INDEX) /, '$1 IF NOT EXISTS '))
  return `${[whole, ...added, ...indexes].join('--> statement-breakpoint\n').replaceAll(';-->', ';\n-->')}\n`
}
