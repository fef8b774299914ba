/** Diagnostics channels of the event feed, from which metrics are counted. */
import { channel } from 'node:diagnostics_channel'
import { getChannelName } from '../../lib/identity.ts'

const assignedChannel = channel(getChannelName('events:assigned'))
const removedChannel = channel(getChannelName('events:removed'))
const streamEndedChannel = channel(getChannelName('events:stream-ended'))

/**
 * Publishes that events got their positions.
 * @param delays seconds from the creation of each event to its position
 */
export function publishAssigned(delays: readonly number[]): void {
  if (assignedChannel.hasSubscribers) assignedChannel.publish({ delays })
}

/** Publishes that events were removed after their retention. */
export function publishRemoved(count: number): void {
  if (removedChannel.hasSubscribers) removedChannel.publish({ count })
}

/** Why a stream ended. */
export type StreamEnd = 'client' | 'credential' | 'shutdown' | 'unread' | 'expired' | 'error'

export function publishStreamEnded(reason: StreamEnd): void {
  if (streamEndedChannel.hasSubscribers) streamEndedChannel.publish({ reason })
}
