/**
 * Refresh tokens: opaque, with 256 secret bits, and each leads to its successor, so that none need be stored.
 * A token names its session and its number in the line; a tag tells one that was once made here from one that
 * never was, however old it is, so that only the reuse of a real one can end a session.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { parse, stringify } from 'uuid'

export interface RefreshToken {
  sessionId: string
  /** 0 for the first of a session. */
  generation: number
  secret: Buffer
}

const PREFIX = 'rrt_'
const ID = 16
const GENERATION = 4
const SECRET = 32
const TAG = 16
const BODY = ID + GENERATION + SECRET

export function createRefreshTokens(key: Buffer) {
  const mac = (purpose: string, data: Buffer) =>
    createHmac('sha256', key).update(purpose).update(data).digest()

  const write = ({ sessionId, generation, secret }: RefreshToken): string => {
    const number = Buffer.alloc(GENERATION)
    number.writeUInt32BE(generation)
    const body = Buffer.concat([parse(sessionId), number, secret])
    return PREFIX + Buffer.concat([body, mac('tag', body).subarray(0, TAG)]).toString('base64url')
  }

  return {
    first: (sessionId: string): RefreshToken => ({ sessionId, generation: 0, secret: randomBytes(SECRET) }),

    /** The one that follows; always the same for the same token. */
    successor: ({ sessionId, generation, secret }: RefreshToken): RefreshToken => ({
      sessionId,
      generation: generation + 1,
      secret: mac('successor', secret),
    }),

    write,

    /** Undefined for a text that never was a token of ours; no query is needed to know. */
    read(text: string): RefreshToken | undefined {
      if (!text.startsWith(PREFIX)) return undefined
      const bytes = Buffer.from(text.slice(PREFIX.length), 'base64url')
      if (bytes.length !== BODY + TAG) return undefined
      const body = bytes.subarray(0, BODY)
      if (!timingSafeEqual(bytes.subarray(BODY), mac('tag', body).subarray(0, TAG))) return undefined
      const token = {
        sessionId: stringify(body, 0),
        generation: body.readUInt32BE(ID),
        secret: Buffer.from(body.subarray(ID + GENERATION)),
      }
      return write(token) === text ? token : undefined
    },

    /** What is stored of a token. */
    hash: ({ secret }: RefreshToken): string => createHash('sha256').update(secret).digest('hex'),
  }
}

export type RefreshTokens = ReturnType<typeof createRefreshTokens>
