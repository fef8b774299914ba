/** The diagnostics channels that the database client publishes on, for example for metrics. */
import { channel } from 'node:diagnostics_channel'
import { getChannelName } from '../identity.ts'

const waits = channel(getChannelName('database:wait'))
const retries = channel(getChannelName('database:retry'))
const renewals = channel(getChannelName('database:renewed'))

/** Publishes that a statement or a transaction waited for a connection. */
export function publishWait(milliseconds: number): void {
  if (waits.hasSubscribers) waits.publish({ milliseconds })
}

/** Publishes that a statement or a transaction is repeated, 1 for the first time, after an error with this SQLSTATE. */
export const publishRetry = (code: string, attempt: number): void => retries.publish({ code, attempt })

/**
 * Publishes that a connection is replaced.
 * @param why it did not answer a ping before its use (`stale`), was lost under a statement that is sent again (`lost`),
 * did not answer a statement in time (`silent`), or leads to a standby (`read-only`)
 */
export const publishRenewal = (why: 'stale' | 'lost' | 'silent' | 'read-only'): void =>
  renewals.publish({ why })
