/** The diagnostics channel of consumers, from which metrics are counted. */
import { channel } from 'node:diagnostics_channel'
import { getChannelName } from '@resource-api/database/values'

/** `{ name, result: succeeded | failed }`: an attempt to handle an event ended. */
export const handledChannel = channel(getChannelName('consumers:handled'))
