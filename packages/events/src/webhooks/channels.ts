/** Diagnostics channels of webhooks, from which metrics are counted. Their messages are `{ result: succeeded | failed }`. */
import { channel } from 'node:diagnostics_channel'
import { getChannelName } from '@resource-api/database/values'

/** A request to an endpoint ended. */
export const attemptChannel = channel(getChannelName('webhooks:attempt'))
/** A delivery ended: it succeeded, its last attempt failed, or it must not be sent. */
export const deliveryChannel = channel(getChannelName('webhooks:delivery'))
