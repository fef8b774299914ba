/** What a test replaces in the app. */
import type { PasswordHasher } from '@resource-api/accounts'
import type { Database } from '@resource-api/database'
import type { Own } from '@resource-api/events'
import type { TimeoutOptions } from '@resource-api/http'
import type { Version } from '@resource-api/http/versions'
import type { OwnRoutes, ResourcePlugin } from '@resource-api/resources'

export interface AppOverrides {
  database?: Database
  versions?: readonly Version[]
  resources?: readonly ResourcePlugin[]
  routes?: readonly OwnRoutes[]
  /** The project's jobs and consumers. */
  own?: Partial<Pick<Own, 'jobs' | 'consumers'>>
  /** Milliseconds that the claim of a job or a consumer lasts without being renewed. */
  leaseMs?: number
  /** The clock of rate limits, schedules and the identity provider's cached keys, in milliseconds since the epoch. */
  now?: () => number
  /** The password hash functions. */
  passwordHasher?: PasswordHasher | undefined
  timeouts?: TimeoutOptions
  /** The memory of all exports, in bytes. */
  maxExportBytes?: number
  /** The event loop delay from which requests are refused; a test that blocks the loop it shares raises it. */
  maxLoopDelayMs?: number
  /** The expected wait from which requests are refused; a test on a busy machine raises it. */
  maxWaitMs?: number
  /** Where log lines are written. */
  logs?: { write(line: string): void }
}
