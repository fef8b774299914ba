/** Diagnostics channels of writes with an `Idempotency-Key`, from which metrics are counted. */
import { channel } from 'node:diagnostics_channel'

const channels = {
  /** `{}`: a stored response was sent. */
  replayed: channel('resource-api:idempotency:replayed'),
  /** `{}`: a key was used again with a different body (422). */
  mismatch: channel('resource-api:idempotency:mismatch'),
  /** `{}`: the first request with a key was still running (409). */
  'in-progress': channel('resource-api:idempotency:in-progress'),
  /** `{ count }`: the number of expired records that were deleted. */
  pruned: channel('resource-api:idempotency:pruned'),
}

export function publish(event: keyof typeof channels, message: { count?: number } = {}): void {
  if (channels[event].hasSubscribers) channels[event].publish(message)
}
