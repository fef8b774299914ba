/** The diagnostics channels that the database client publishes on, for example for metrics. */
import { channel } from 'node:diagnostics_channel'

/** A message on `resource-api:database:retry`. */
interface Retry {
  /** SQLSTATE of the error that the retry follows. */
  code: string
  /** 1 for the first retry. */
  attempt: number
}

/** A message on `resource-api:database:renewed`. */
interface Renewal {
  /**
   * Why a connection was replaced: it did not answer a ping before its use (`stale`), was lost under a statement that
   * is sent again (`lost`), did not answer a statement in time (`silent`), or leads to a standby (`read-only`).
   */
  why: 'stale' | 'lost' | 'silent' | 'read-only'
}

const waits = channel('resource-api:database:wait')
const retries = channel('resource-api:database:retry')
const renewals = channel('resource-api:database:renewed')

/** Publishes that a statement or a transaction waited for a connection. */
export function publishWait(milliseconds: number): void {
  if (waits.hasSubscribers) waits.publish({ milliseconds })
}

/** Publishes that a statement or a transaction is repeated. */
export function publishRetry(retry: Retry): void {
  if (retries.hasSubscribers) retries.publish(retry)
}

/** Publishes that a connection is replaced. */
export function publishRenewal(why: Renewal['why']): void {
  if (renewals.hasSubscribers) renewals.publish({ why } satisfies Renewal)
}
