/** The diagnostics channel of jobs, from which metrics are counted. */
import { channel } from 'node:diagnostics_channel'
import { getChannelName } from '@resource-api/database/values'

/** `{ name, result: succeeded | failed }`: a run ended. */
export const runChannel = channel(getChannelName('jobs:run'))
