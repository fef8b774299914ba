/**
 * A database that poses as a standby of another one on the same server. Its different rows show where a read
 * went, and its replication lag is set by the test.
 */
import type { Database } from '../../drizzle/client/index.ts'
import { type Owner, openDatabase, testDatabaseUrl } from './database.ts'

/** Statements that create functions which hide the server's own, by the search path. */
const DISGUISE = (primary: string) => [
  'create schema disguise',
  'create table disguise.state (standby bool not null, replayed pg_lsn, identity text not null)',
  `insert into disguise.state values (true, null, '${primary}')`,
  `create function disguise.pg_is_in_recovery() returns bool language sql
    as 'select standby from disguise.state'`,
  `create function disguise.pg_last_wal_replay_lsn() returns pg_lsn language sql
    as 'select coalesce(replayed, pg_current_wal_insert_lsn()) from disguise.state'`,
  `create function disguise.current_database() returns text language sql
    as 'select identity from disguise.state'`,
]

export interface Standby {
  url: string
  /** A connection that may change its rows. */
  database: Database
  /** Stops replaying. */
  freeze(): Promise<void>
  /** Replays everything. */
  thaw(): Promise<void>
  /** Changes a reported property: `standby = false`. */
  set(change: string): Promise<void>
}

export async function createFakeStandby(t: Owner, primary: string): Promise<Standby> {
  const { url = '' } = await testDatabaseUrl(t)
  const database = await openDatabase({ url, poolSize: 2 })
  t.teardown(() => database.close())
  const name = new URL(url).pathname.slice(1)
  for (const text of DISGUISE(new URL(primary).pathname.slice(1))) await database.run(text)
  await database.run(`alter database ${name} set search_path = disguise, pg_catalog, public`)
  const set = async (change: string) => {
    await database.run(`update disguise.state set ${change}`)
  }
  return {
    url,
    database,
    freeze: () => set('replayed = pg_current_wal_insert_lsn()'),
    thaw: () => set('replayed = null'),
    set,
  }
}
