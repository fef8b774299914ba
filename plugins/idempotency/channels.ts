/** What happens to keyed writes, told on channels for who counts it. */
import { channel } from 'node:diagnostics_channel'

const channels = {
  /** `{}`: a reply was told again. */
  replayed: channel('resource-api:idempotency:replayed'),
  /** `{}`: a key came with another body (422). */
  mismatch: channel('resource-api:idempotency:mismatch'),
  /** `{}`: the first request with a key was still running (409). */
  'in-progress': channel('resource-api:idempotency:in-progress'),
  /** `{ count }`: how many records had grown old. */
  pruned: channel('resource-api:idempotency:pruned'),
}

export function publish(event: keyof typeof channels, message: { count?: number } = {}): void {
  if (channels[event].hasSubscribers) channels[event].publish(message)
}
