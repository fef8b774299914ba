/** Diagnostics channels of the rate limiter, from which metrics are counted. */
import { channel } from 'node:diagnostics_channel'
import { getChannelName } from '../../lib/identity.ts'

/** `{ window }`: the name of the window that was full. */
export const refusedChannel = channel(getChannelName('limits:refused'))

/** `{ state }`: 'own' when the shared store becomes unavailable, 'shared' when it is available again. */
export const storeChannel = channel(getChannelName('limits:store'))
