/** Diagnostics channels of webhooks, from which metrics are counted. */
import { channel } from 'node:diagnostics_channel'
import { getChannelName } from '../../lib/identity.ts'

const attemptChannel = channel(getChannelName('webhooks:attempt'))
const deliveryChannel = channel(getChannelName('webhooks:delivery'))

/** Publishes that a request to an endpoint ended. */
export function publishAttempt(result: 'succeeded' | 'failed'): void {
  if (attemptChannel.hasSubscribers) attemptChannel.publish({ result })
}

/** Publishes that a delivery ended: it succeeded, its last attempt failed, or it must not be sent. */
export function publishDelivery(result: 'succeeded' | 'failed'): void {
  if (deliveryChannel.hasSubscribers) deliveryChannel.publish({ result })
}
