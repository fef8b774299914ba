/** Empties a database, so that the next test can have it: loading another one takes ten times as long. */
import { listRecordTables, RECORD_PREFIX } from '@resource-api/database/migrations'

/** Runs a statement of one command. */
export interface Statements {
  run(text: string, params?: readonly string[]): Promise<Record<string, unknown>[]>
  schema: string
}

/** What a database has after its migrations. */
export interface MigratedState {
  tables: ReadonlySet<string>
  /** A hash of the catalog. */
  catalog: string
  /** The number of migrations that each table of them records. */
  migrations: ReadonlyMap<string, number>
}

const isOwn = (namespace: string) => `${namespace} !~ '^pg_' and ${namespace} <> 'information_schema'`

/** A line for each object that a test may create, change or drop. Names are compared, since numbers differ by database. */
const CATALOG = `
  with own as (
    select c.*, n.nspname, c.oid::regclass::text as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where ${isOwn('n.nspname')}
  ), lines (line) as (
    select row('class', name, relkind, relpersistence, reloptions, relacl, relowner::regrole, relreplident,
      relrowsecurity, relforcerowsecurity)::text from own
    union all select row('column', o.name, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
      a.attcollation, a.attidentity, a.attgenerated, a.attoptions, a.attstattarget, a.attacl, pg_get_expr(d.adbin, d.adrelid))::text
      from own o join pg_attribute a on a.attrelid = o.oid and a.attnum > 0 and not a.attisdropped
      left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    union all select row('index', pg_get_indexdef(i.indexrelid), i.indisvalid, i.indisclustered)::text
      from own o join pg_index i on i.indexrelid = o.oid
    union all select row('constraint', o.name, c.conname, pg_get_constraintdef(c.oid), c.convalidated)::text
      from own o join pg_constraint c on c.conrelid = o.oid
    union all select row('trigger', o.name, case when t.tgisinternal then t.tgfoid::regproc::text
      else pg_get_triggerdef(t.oid) end, t.tgenabled)::text from own o join pg_trigger t on t.tgrelid = o.oid
    union all select row('rule', o.name, r.rulename, pg_get_ruledef(r.oid))::text
      from own o join pg_rewrite r on r.ev_class = o.oid
    union all select row('policy', o.name, p.polname)::text from own o join pg_policy p on p.polrelid = o.oid
    union all select row('statistics', o.name, s.staattnum)::text from own o join pg_statistic s on s.starelid = o.oid
    union all select row('sequence', s.seqrelid::regclass, s.seqtypid::regtype, s.seqstart, s.seqincrement, s.seqmax,
      s.seqmin, s.seqcache, s.seqcycle)::text from own o join pg_sequence s on s.seqrelid = o.oid
    union all select row('function', p.oid::regprocedure, p.prosrc, p.proconfig, p.proacl, p.provolatile)::text
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace where ${isOwn('n.nspname')}
    union all select row('type', t.oid::regtype, t.typtype,
      (select array_agg(e.enumlabel order by e.enumsortorder) from pg_enum e where e.enumtypid = t.oid))::text
      from pg_type t join pg_namespace n on n.oid = t.typnamespace where ${isOwn('n.nspname')}
    union all select row('operator', o.oid::regoperator)::text
      from pg_operator o join pg_namespace n on n.oid = o.oprnamespace where ${isOwn('n.nspname')}
    union all select row('schema', nspname, nspacl)::text from pg_namespace where ${isOwn('nspname')}
    union all select row('extension', extname, extversion)::text from pg_extension
    union all select row('publication', pubname)::text from pg_publication
    union all select row('event trigger', evtname)::text from pg_event_trigger
    union all select row('extended statistics', stxname)::text from pg_statistic_ext
    union all select row('default privileges', defaclacl)::text from pg_default_acl
    union all select row('large object', oid)::text from pg_largeobject_metadata
    union all select row('setting of the database', setconfig)::text from pg_db_role_setting s
      join pg_database d on d.oid = s.setdatabase and d.datname = current_database()
    union all select row('setting', name, setting)::text from pg_settings where source = 'configuration file'
  )
  select md5(string_agg(line, ',' order by line collate "C")) as hash from lines`

/** Roles are those of the whole server: tests of other processes create them too. */
const ROLES = `
  select md5(string_agg(row(r.rolname, r.rolsuper, r.rolbypassrls, r.rolcanlogin, s.setconfig)::text, ','
    order by r.rolname, s.setconfig)) as hash
  from pg_roles r left join pg_db_role_setting s on s.setrole = r.oid`

const listTables = async (database: Statements): Promise<string[]> =>
  (
    await database.run(`select c.oid::regclass::text as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind in ('r', 'p') and ${isOwn('n.nspname')}`)
  ).map(({ name }) => String(name))

async function readCatalog(database: Statements, isAlone: boolean): Promise<string> {
  const [catalog] = await database.run(CATALOG)
  const [roles] = isAlone ? await database.run(ROLES) : []
  return `${catalog?.hash} ${roles?.hash}`
}

/** @param isAlone whether no other process uses the server of the database */
export async function readMigratedState(database: Statements, isAlone: boolean): Promise<MigratedState> {
  const migrations = new Map<string, number>()
  for (const table of listRecordTables(database.schema)) {
    const [record] = await database.run(`select count(*)::int as migrations from ${table}`)
    migrations.set(table, Number(record?.migrations))
  }
  return {
    tables: new Set(await listTables(database)),
    catalog: await readCatalog(database, isAlone),
    migrations,
  }
}

/** Returns whether a name, as the catalog writes it, is that of a table of applied migrations. */
const isRecordTable = (name: string) => name.replace(/.*\./, '').startsWith(RECORD_PREFIX)

/**
 * Drops the tables of a test, deletes all rows and restarts the sequences.
 * @returns false if the database still differs from a migrated one, so that no other test can have it
 */
export async function resetDatabase(
  database: Statements,
  { tables, catalog, migrations }: MigratedState,
  isAlone: boolean,
): Promise<boolean> {
  const found = await listTables(database)
  const others = found.filter((name) => !tables.has(name))
  if (others.length > 0) await database.run(`drop table ${others.join(', ')} cascade`)
  if ((await readCatalog(database, isAlone)) !== catalog) return false
  const emptied = [...tables].filter((name) => !isRecordTable(name))
  const [row] = await database.run(
    `select array_to_string(array[${emptied.map((name) => `case when exists (select from ${name}) then '${name}' end`)}], ', ') as filled`,
  )
  const filled = String(row?.filled)
  if (filled !== '') await database.run(`truncate ${filled} cascade`)
  await database.run(`select setval(seqrelid, seqstart, false) from pg_sequence`)
  for (const [table, count] of migrations) {
    await database.run(`delete from ${table} where id > ${count}`)
    await database.run(
      `select setval(pg_get_serial_sequence('${table}', 'id'), ${Math.max(count, 1)}, ${count > 0})`,
    )
  }
  return true
}
