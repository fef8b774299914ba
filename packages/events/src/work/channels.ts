/** The diagnostics channel of the work of the project, from which metrics are counted. */
import { channel } from 'node:diagnostics_channel'
import { getChannelName } from '@resource-api/database/values'

/** `{ name, result: succeeded | failed }`: an attempt ended. */
export const workChannel = channel(getChannelName('work:attempt'))
