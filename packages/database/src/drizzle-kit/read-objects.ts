/** Writes what the database has in the schema `public` to standard output, as JSON. `drizzleConfig` runs it as a process. */
import { openDatabase } from '../client/index.ts'
import { DEFAULT_SCHEMA } from '../client/schema.ts'
import type { Queryable } from '../client/types.ts'
import { countPendingMigrations } from '../migrate.ts'

interface Sequence {
  name: string
  /** The table of the column that it belongs to. */
  table: string | null
  /** As text: the numbers may be greater than 2^53. */
  options: Record<'startWith' | 'minValue' | 'maxValue' | 'increment' | 'cache', string> & { cycle: boolean }
}

export interface DatabaseObjects {
  /** The number of migrations of the packages that it lacks. */
  pending: number
  /** The schema of the tables; null if there are none. */
  schema: string | null
  sequences: readonly Sequence[]
  enums: readonly { name: string; values: [string, ...string[]] }[]
  /** The columns of the collation "C", with their types. */
  collated: readonly { table: string; column: string; type: string }[]
  /** The names of the indexes that have an expression. */
  expressionIndexes: readonly string[]
}

const SELECT_OBJECTS = `select
  (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.oid = to_regclass('users')) as schema,
  (select coalesce(json_agg(json_build_object('name', s.sequencename, 'table', (
      select t.relname from pg_depend d join pg_class t on t.oid = d.refobjid
      where d.classid = 'pg_class'::regclass and d.objid = format('%I.%I', s.schemaname, s.sequencename)::regclass
        and d.refclassid = 'pg_class'::regclass and d.deptype in ('a', 'i')),
    'options', json_build_object('startWith', s.start_value::text, 'minValue', s.min_value::text,
      'maxValue', s.max_value::text, 'increment', s.increment_by::text, 'cache', s.cache_size::text,
      'cycle', s.cycle))), '[]') from pg_sequences s where s.schemaname = $1) as sequences,
  (select coalesce(json_agg(json_build_object('name', t.typname, 'values', (
      select json_agg(e.enumlabel order by e.enumsortorder) from pg_enum e where e.enumtypid = t.oid))), '[]')
    from pg_type t join pg_namespace n on n.oid = t.typnamespace
    where n.nspname = $1 and exists (select from pg_enum e where e.enumtypid = t.oid)) as enums,
  (select coalesce(json_agg(json_build_object('table', c.relname, 'column', a.attname,
      'type', format_type(a.atttypid, a.atttypmod))), '[]')
    from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = $1 and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
      and a.attcollation = 'pg_catalog."C"'::regcollation) as collated,
  (select coalesce(json_agg(c.relname), '[]')
    from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = $1 and i.indexprs is not null) as "expressionIndexes"`

async function readObjects(database: Queryable & { schema: string }) {
  const [objects] = await database.run(SELECT_OBJECTS, [DEFAULT_SCHEMA])
  // Without an application, all migrations are those of the packages.
  return { ...objects, pending: await countPendingMigrations(database) }
}

try {
  const database = await openDatabase({ url: process.env.DATABASE_URL, schema: DEFAULT_SCHEMA, poolSize: 1 })
  try {
    process.stdout.write(JSON.stringify(await readObjects(database)))
  } finally {
    await database.close()
  }
} catch (error) {
  process.stderr.write(error instanceof Error ? error.message : String(error))
  process.exitCode = 1
}
