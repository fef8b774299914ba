/** The checks of the services besides the primary database: replicas and Redis. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Database } from '@resource-api/database'
import type { Config } from '@resource-api/http/config'
import { type Finding, fail, ok, warn } from './finding.ts'

/** More than a connection to a replica may take. */
const REPLICA_WAIT_MS = 5_000
const POLLING_INTERVAL_MS = 50

/** Reports each replica as the server would use it: whether it answers, whose standby it is, and how far it is behind. */
export async function* checkReplicas({ replicas }: Database, config: Config): AsyncGenerator<Finding> {
  if (!replicas) return
  const reasons = new Map<string, string>()
  replicas.onChange((label, _, reason) => reasons.set(label, reason))
  const isMeasured = () => replicas.getStates().every(({ standing }) => standing !== 'new')
  const end = performance.now() + REPLICA_WAIT_MS
  while (!isMeasured() && performance.now() < end) await wait(POLLING_INTERVAL_MS)
  for (const { label, standing, lag } of replicas.getStates()) {
    if (standing === 'up')
      yield ok('replica', `${label} has all changes until ${(lag / 1000).toFixed(1)} s ago`)
    else if (standing === 'new')
      yield warn(
        'replica',
        `${label} was not measured within ${REPLICA_WAIT_MS / 1000} s`,
        'It gets no reads before it is compared with the primary. Check that both answer, and run doctor again.',
      )
    else if (standing === 'behind')
      yield warn(
        'replica',
        `${label} is behind`,
        `It gets no reads while it is more than REPLICA_LAG (${config.REPLICA_LAG} s) behind.`,
      )
    else
      yield fail(
        'replica',
        `${label} cannot be used: ${reasons.get(label)}`,
        `Check the server and its address in DATABASE_REPLICA_URLS. Until then ${label} gets no reads.`,
      )
  }
}

/** Checks that Redis can count, with a key that expires within a second. */
export async function* checkRedis({ REDIS_URL }: Config): AsyncGenerator<Finding> {
  if (REDIS_URL === undefined) return
  // Without the credentials and the database.
  const { host } = new URL(REDIS_URL)
  // Loaded here, as in the server, only if it is configured.
  const { connectRedis } = await import('@resource-api/http/redis')
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
