/** Messages on a diagnostics channel. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Owner } from './database.ts'

/** Returns an array to which each message on the channel is added until the test ends. */
export function recordMessages(t: Owner, channel: string): unknown[] {
  const messages: unknown[] = []
  const record = (message: unknown) => messages.push(message)
  subscribe(channel, record)
  t.teardown(() => unsubscribe(channel, record))
  return messages
}
