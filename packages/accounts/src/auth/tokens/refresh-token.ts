/**
 * Creates and reads refresh tokens: the ID of the session, the number of rotations, 256 secret bits and a tag.
 * The successor of a token is derived from it with an HMAC, so that tokens need not be stored. The tag is an HMAC which
 * proves that this service issued the token, however old it is, so that a forged token cannot end a session.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { parse, stringify } from 'uuid'

export interface RefreshToken {
  sessionId: string
  /** Rotations before this token; 0 for the first token of a session. */
  generation: number
  secret: Buffer
}

const PREFIX = 'rrt_'
const ID_BYTES = 16
const GENERATION_BYTES = 4
const SECRET_BYTES = 32
const TAG_BYTES = 16
const BODY_BYTES = ID_BYTES + GENERATION_BYTES + SECRET_BYTES

export function createRefreshTokens(key: Buffer) {
  const mac = (purpose: string, data: Buffer) =>
    createHmac('sha256', key).update(purpose).update(data).digest()

  const write = ({ sessionId, generation, secret }: RefreshToken): string => {
    const number = Buffer.alloc(GENERATION_BYTES)
    number.writeUInt32BE(generation)
    const body = Buffer.concat([parse(sessionId), number, secret])
    return PREFIX + Buffer.concat([body, mac('tag', body).subarray(0, TAG_BYTES)]).toString('base64url')
  }

  return {
    createFirst: (sessionId: string): RefreshToken => ({
      sessionId,
      generation: 0,
      secret: randomBytes(SECRET_BYTES),
    }),

    /** Returns the next token of the session, always the same one for the same token. */
    getSuccessor: ({ sessionId, generation, secret }: RefreshToken): RefreshToken => ({
      sessionId,
      generation: generation + 1,
      secret: mac('successor', secret),
    }),

    write,

    /** Returns the parts of a token; undefined, without a query, if this service never issued it. */
    read(text: string): RefreshToken | undefined {
      if (!text.startsWith(PREFIX)) return undefined
      const bytes = Buffer.from(text.slice(PREFIX.length), 'base64url')
      if (bytes.length !== BODY_BYTES + TAG_BYTES) return undefined
      const body = bytes.subarray(0, BODY_BYTES)
      if (!timingSafeEqual(bytes.subarray(BODY_BYTES), mac('tag', body).subarray(0, TAG_BYTES)))
        return undefined
      const token = {
        sessionId: stringify(body, 0),
        generation: body.readUInt32BE(ID_BYTES),
        secret: body.subarray(ID_BYTES + GENERATION_BYTES),
      }
      return write(token) === text ? token : undefined
    },

    /** Returns the hash that is stored instead of a token. */
    hash: ({ secret }: RefreshToken): string => createHash('sha256').update(secret).digest('hex'),
  }
}

export type RefreshTokens = ReturnType<typeof createRefreshTokens>
