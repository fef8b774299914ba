/** Writes events as blocks of a stream. An event is serialized once for all streams that show it alike. */
import type { Actor } from '../access/index.ts'
import { type ApiError, writeError } from '../errors/index.ts'
import type { FeedPosition } from './feed-state.ts'
import { hideUnreadable } from './readable.ts'
import type { EventMapper, EventRow } from './represent-event.ts'
import type { StreamOptions } from './stream.ts'

interface FormatOptions {
  mapper: EventMapper
  writeCursor(position: FeedPosition, identity: string): string
  /** Returns whether the representation of a resource depends on the reader. */
  isPersonal(resourceType: string): boolean
}

/** The blocks of one event that were written already. */
export type BlockCache = Map<string, string | Buffer>

const getReader = ({ userId, sessionId }: Actor) => `${userId}/${sessionId}`

export function createStreamFormat({ mapper, writeCursor, isPersonal }: FormatOptions) {
  const writeJson = (event: EventRow, { actor, version, fields }: StreamOptions): string =>
    JSON.stringify(mapper.toData(event, actor, version, fields))

  const remember = <T extends string | Buffer>(cache: BlockCache, key: string, write: () => T) => {
    const known = cache.get(key)
    if (known !== undefined) return known
    const written = write()
    cache.set(key, written)
    return written
  }

  return {
    /** Returns the block of an event: its cursor, its type and its JSON in one line. */
    writeEvent(event: EventRow, options: StreamOptions, cache: BlockCache): string | Buffer {
      const { version, fields, identity, actor, rules } = options
      const shown = hideUnreadable(rules, event, actor)
      const reader = isPersonal(event.resource_type) ? getReader(actor) : ''
      const shape = `${version}|${fields?.join() ?? '*'}|${reader}|${shown === event}`
      return remember(cache, `${shape}|${identity}`, () => {
        const json = remember(cache, shape, () => writeJson(shown, options))
        return Buffer.from(`id: ${writeCursor(event, identity)}\nevent: ${event.type}\ndata: ${json}\n\n`)
      })
    },

    /** Returns a comment with the cursor of a position, so that a client that reconnects skips what it need not read. */
    writeComment: (position: FeedPosition, { identity }: StreamOptions): string =>
      `:\nid: ${writeCursor(position, identity)}\n\n`,

    /** Returns the block that says why a stream ends. It has no cursor: that of the client is kept. */
    writeError: (error: ApiError, { envelope, requestId }: StreamOptions): string =>
      `event: error\ndata: ${writeError(envelope, error, requestId)}\n\n`,
  }
}

export type StreamFormat = ReturnType<typeof createStreamFormat>
