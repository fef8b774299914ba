/** The checks of the services besides the primary database: replicas and Redis. */
import type { Database } from '@resource-api/database'
import { IDENTITY_SQL, openDatabase, parseAddress } from '@resource-api/database/internal'
import { sql } from 'drizzle-orm'
import type { Config } from '../../config/settings.ts'
import { loadRedis } from '../../rate-limit/load-redis.ts'
import { attempt, type Finding, fail, ok, warn } from './finding.ts'

const SELECT_PRIMARY = sql`select (pg_current_wal_insert_lsn() - '0/0')::int8 as position, ${sql.raw(IDENTITY_SQL)} as identity`
const SELECT_REPLICA = sql`select pg_is_in_recovery() as is_standby, ${sql.raw(IDENTITY_SQL)} as identity,
  coalesce(pg_last_wal_replay_lsn() - '0/0', 0)::int8 as position,
  extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp())::int8 as seconds`

type Replica = {
  is_standby: boolean
  identity: string
  position: number
  /** Since the last transaction that was replayed, also if there was none after it. */
  seconds: number | null
}

/** @throws DatabaseUnavailable, SqlError */
async function readPositions(primary: Database, url: string) {
  const replica = await openDatabase({ url, poolSize: 1 })
  try {
    const [before] = await primary.execute<{ position: number; identity: string }>(SELECT_PRIMARY)
    const [state] = await replica.execute<Replica>(SELECT_REPLICA)
    if (!before || !state) throw new Error('The server returned no row')
    return { before, state }
  } finally {
    await replica.close()
  }
}

function checkReplica(primary: Database, url: string, maxSeconds: number): Promise<Finding> {
  const { label } = parseAddress(url)
  const advice = `Check the server and its address in DATABASE_REPLICA_URLS. Until then ${label} gets no reads.`
  const work = async () => {
    const { before, state } = await readPositions(primary, url)
    if (!state.is_standby) return fail('replica', `${label} is not a standby`, advice)
    if (state.identity !== before.identity)
      return fail('replica', `${label} is a standby of another database`, advice)
    const bytes = Math.max(0, before.position - state.position)
    if (bytes === 0) return ok('replica', `${label} has all changes`)
    const message = `${label} is ${bytes} bytes behind; its last change is ${state.seconds ?? 'an unknown number of'} s old`
    if ((state.seconds ?? Number.POSITIVE_INFINITY) <= maxSeconds) return ok('replica', message)
    return warn(
      'replica',
      message,
      `It gets no reads while it is more than REPLICA_LAG (${maxSeconds} s) behind.`,
    )
  }
  return attempt('replica', advice, work, `${label} cannot be used`)
}

/** Checks each replica: whether it answers, whose standby it is, and how far it is behind. */
export async function* checkReplicas(primary: Database, config: Config): AsyncGenerator<Finding> {
  for (const url of config.DATABASE_REPLICA_URLS) yield await checkReplica(primary, url, config.REPLICA_LAG)
}

/** Checks that Redis can count, with a key that expires within a second. */
export async function* checkRedis({ REDIS_URL }: Config): AsyncGenerator<Finding> {
  if (REDIS_URL === undefined) return
  // Without the credentials and the database.
  const { host } = new URL(REDIS_URL)
  // Loaded here, as in the server, only if it is configured.
  const { connectRedis } = await loadRedis()
  const redis = await connectRedis(REDIS_URL)
  let failure: string | undefined
  redis.onChange((reason) => {
    failure = reason
  })
  redis.close()
  const advice = 'Check the server and REDIS_URL. Until then each process counts rate limits by itself.'
  yield failure === undefined
    ? ok('redis', `${host} answers and can be written to`)
    : fail('redis', `${host} cannot be used: ${failure}`, advice)
}
