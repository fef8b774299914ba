/** The work that requests enqueue: it is done after their commit, by the functions of `defineWork`. */
import type { Connection } from '@resource-api/database'
import { type Duration, toMilliseconds } from '@resource-api/database/values'
import type { Queue } from '@resource-api/work'

/**
 * The payloads of work by its names, which become JSON. A definition of work adds its own with `declare module`.
 * @public
 */
// biome-ignore lint/suspicious/noEmptyInterface: definitions add to it
export interface WorkPayloads {}

export type WorkName = keyof WorkPayloads & string

interface EnqueueOptions {
  /** Work of the same name and key is enqueued once, until it is deleted: 30 days after that. */
  key?: string | null
  /** The time before the first attempt. */
  delay?: Duration
}

export type Enqueue = <Name extends WorkName>(
  name: Name,
  payload: WorkPayloads[Name],
  options?: EnqueueOptions,
) => Promise<boolean>

/** Returns the kind of the work of an application. */
export const toWorkKind = (name: string): string => `work:${name}`

/** Creates the function that enqueues work in a transaction. It returns whether the key was not known. */
export const createEnqueue =
  ({ enqueue, hasKind }: Queue, connection: Connection): Enqueue =>
  async (name, payload, { key = null, delay } = {}) => {
    const kind = toWorkKind(name)
    if (!hasKind(kind)) throw new Error(`There is no work "${name}": list it in src/own.ts`)
    const delayMs = delay === undefined ? 0 : toMilliseconds(delay)
    return enqueue(connection, { kind, key, payload: Object(payload), delayMs })
  }
