/** Opens the schema of the bench in a database of Citus, and fills it with the rows of the bench database. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { readProcessTreeCpu } from './cpu.ts'
import { type BenchDatabase, connect, readPostmasterPid, runCommandLine, type Sql } from './database.ts'
import { LOAD_CORE } from './processes.ts'

const SCHEMA = 'bench'

/** Returns the process ids of the postmasters of all nodes. @throws Error if a node is not on this machine */
async function readNodePids(url: string, sql: Sql): Promise<number[]> {
  const nodes = await sql`select nodename as host, nodeport as port from pg_dist_node where isactive`
  return Promise.all(
    nodes.map(async ({ host, port }) => {
      const address = new URL(url)
      address.host = `${host}:${port}`
      const node = connect(address.href)
      try {
        return await readPostmasterPid(node)
      } finally {
        await node.end()
      }
    }),
  )
}

/**
 * Moves PostgreSQL servers to the core of the bench's PostgreSQL: the processes that they start from now on.
 * @returns a function that undoes it
 */
function pinToCore(pids: readonly number[]): () => void {
  const pin = (pid: number, cores: string) =>
    execFileSync('taskset', ['-cp', cores, String(pid)], { stdio: 'ignore' })
  const former = pids.map((pid) => {
    const [, cores = ''] =
      /^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    return [pid, cores] as const
  })
  for (const pid of pids) pin(pid, String(LOAD_CORE))
  return () => {
    for (const [pid, cores] of former) pin(pid, cores)
  }
}

/** Copies the rows of the bench database, unless the schema has them. @throws Error if it is not distributed */
async function fillSchema(
  url: string,
  sql: Sql,
  { url: source, sql: sourceSql }: BenchDatabase,
): Promise<void> {
  const [table] = await sql`select to_regclass(${`${SCHEMA}.products`}) is not null as exists`
  if (!table?.exists) {
    const [setting] = await sql`select current_setting('citus.enable_schema_based_sharding', true) as value`
    if (setting?.value !== 'on') throw new Error('The database needs citus.enable_schema_based_sharding = on')
    await runCommandLine(source, ['copy', '--to', url, '--schema', SCHEMA])
  }
  const [schema] = await sql`select from pg_dist_schema where schemaid = ${SCHEMA}::regnamespace`
  if (!schema) throw new Error(`The schema ${SCHEMA} is not distributed: drop it, and run again`)
  // With other rows, the measurements could not be compared. No bench writes profiles.
  const readFingerprint = async (database: Sql) => {
    const [row] = await database`select md5(string_agg(id::text, ',' order by id)) as ids from user_profiles`
    return row?.ids
  }
  if ((await readFingerprint(sql)) !== (await readFingerprint(sourceSql)))
    throw new Error(`The schema ${SCHEMA} has other rows than the bench database: drop it, and run again`)
}

/** Opens the schema; creates and fills it if it does not exist. */
export async function openCitusSchema(url: string, source: BenchDatabase) {
  const sql = connect(url, { search_path: SCHEMA })
  try {
    await fillSchema(url, sql, source)
    const pids = await readNodePids(url, sql)
    const unpin = pinToCore(pids)
    return {
      sql,
      schema: SCHEMA,
      /** Returns the microseconds of CPU that all nodes have used. */
      readCpu: () => pids.reduce((sum, pid) => sum + readProcessTreeCpu(pid), 0),
      async close() {
        unpin()
        await sql.end()
      },
    }
  } catch (error) {
    await sql.end()
    throw error
  }
}
