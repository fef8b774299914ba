/** Diagnostics channels of the rate limiter, from which metrics are counted. */
import { channel } from 'node:diagnostics_channel'

/** `{ window }`: the name of the window that was full. */
export const refusedChannel = channel('resource-api:limits:refused')

/** `{ state }`: 'own' when the shared store becomes unavailable, 'shared' when it is available again. */
export const storeChannel = channel('resource-api:limits:store')
