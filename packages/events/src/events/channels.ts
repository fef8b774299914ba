/** Diagnostics channels of the event feed, from which metrics are counted. */
import { channel } from 'node:diagnostics_channel'
import { getChannelName } from '@resource-api/database/values'

/** `{ delays }`: events got their positions, each so many seconds after its creation. */
export const assignedChannel = channel(getChannelName('events:assigned'))
/** `{ count }`: events were removed after their retention. */
export const removedChannel = channel(getChannelName('events:removed'))
/** `{ reason }`: a stream ended. */
export const streamEndedChannel = channel(getChannelName('events:stream-ended'))
