/** Diagnostics channels of writes with an `Idempotency-Key`, from which metrics are counted. */
import { channel } from 'node:diagnostics_channel'
import { getChannelName } from '../../lib/identity.ts'

const channels = {
  /** `{}`: a stored response was sent. */
  replayed: channel(getChannelName('idempotency:replayed')),
  /** `{}`: a key was used again with a different body (422). */
  mismatch: channel(getChannelName('idempotency:mismatch')),
  /** `{}`: the first request with a key was still running (409). */
  'in-progress': channel(getChannelName('idempotency:in-progress')),
  /** `{ count }`: the number of expired records that were deleted. */
  pruned: channel(getChannelName('idempotency:pruned')),
}

export function publish(event: keyof typeof channels, message: { count?: number } = {}): void {
  if (channels[event].hasSubscribers) channels[event].publish(message)
}
