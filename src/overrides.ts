/** What a test replaces in the app. */
import type { Database } from '../drizzle/client/index.ts'
import type { PasswordHasher } from '../plugins/auth/passwords.ts'
import type { OwnRoutes } from '../plugins/collection/own-routes.ts'
import type { ResourcePlugin } from '../plugins/collection/plugin.ts'
import type { TimeoutOptions } from '../plugins/http/timeouts.ts'
import type { Version } from '../plugins/versioning/index.ts'
import type { Own } from './define-own.ts'

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
