/** Diagnostics channel of mails, from which metrics are counted. */
import { channel } from 'node:diagnostics_channel'
import { getChannelName } from '@resource-api/database/values'

/** A mail was sent, or its last attempt failed. The message is `{ result: sent | failed }`. */
export const mailChannel = channel(getChannelName('mail:ended'))
