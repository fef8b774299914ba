/** What is told to those who watch, by `node:diagnostics_channel`: metrics come from here. */
import { channel } from 'node:diagnostics_channel'

/** `{ window }`: the name of the window that was full. */
export const refusedChannel = channel('resource-api:limits:refused')

/** `{ state }`: 'own' when the shared store is out of reach, 'shared' when it is back. */
export const storeChannel = channel('resource-api:limits:store')
