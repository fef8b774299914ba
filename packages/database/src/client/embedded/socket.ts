/**
 * The messages between a server and a command on its embedded database, through a Unix socket in the data folder. Each
 * message is its length and a structured clone. A connection runs single statements, or one transaction: it ends with
 * COMMIT, or is rolled back when the connection ends.
 */
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { deserialize, serialize } from 'node:v8'
import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { DatabaseUnavailable, SqlError } from '../errors.ts'

const LENGTH_BYTES = 4

/** The longest path of a socket on macOS; that of Linux is 4 bytes longer. Node.js may cut off the rest silently. */
const MAX_PATH_BYTES = 103

export const Request = Type.Union([
  /** The schema that the command expects. */
  Type.Object({ kind: Type.Literal('open'), schema: Type.String() }),
  Type.Object({
    kind: Type.Literal('run'),
    text: Type.String(),
    params: Type.Array(Type.Union([Type.String(), Type.Null()])),
    customPlan: Type.Boolean(),
  }),
  Type.Object({ kind: Type.Literal('begin') }),
  Type.Object({ kind: Type.Literal('commit') }),
  /** The files may be copied from now on. */
  Type.Object({ kind: Type.Literal('startCopy') }),
  /** All files but the write-ahead log are copied. */
  Type.Object({ kind: Type.Literal('stopCopy') }),
])

const Failure = Type.Object({
  name: Type.String(),
  message: Type.String(),
  code: Type.Optional(Type.String()),
  constraint: Type.Optional(Type.String()),
  table: Type.Optional(Type.String()),
  /** The message of PostgreSQL. */
  cause: Type.Optional(Type.String()),
})

export const Reply = Type.Union([
  Type.Object({ rows: Type.Array(Type.Record(Type.String(), Type.Unknown())) }),
  Type.Object({ failure: Failure }),
])

export type Request = Static<typeof Request>
export type Reply = Static<typeof Reply>

/** @throws Error if sockets are not supported, or the path is too long for one */
export function getSocketPath(dataDir: string): string {
  if (process.platform === 'win32') throw new Error('Sockets in folders are not supported on Windows')
  const path = join(dataDir, 'socket')
  if (Buffer.byteLength(path) > MAX_PATH_BYTES)
    throw new Error(`The path ${path} is longer than the ${MAX_PATH_BYTES} bytes that a socket may have`)
  return path
}

export function writeMessage(socket: Socket, message: Request | Reply): void {
  const body = serialize(message)
  const length = Buffer.alloc(LENGTH_BYTES)
  length.writeUInt32BE(body.length)
  socket.write(Buffer.concat([length, body]))
}

/**
 * Yields messages until the connection ends.
 * @param maxBytes of a message
 * @throws Error if the connection is lost, or a message is none of this release or too long
 */
export async function* readMessages<T extends typeof Request | typeof Reply>(
  socket: Socket,
  type: T,
  maxBytes = Number.POSITIVE_INFINITY,
): AsyncGenerator<Static<T>, undefined> {
  let chunks: Buffer[] = []
  let size = 0
  let wanted = LENGTH_BYTES
  // Otherwise the end of the loop destroys the socket, so that the reason cannot be sent.
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    chunks.push(chunk)
    size += chunk.length
    while (size >= wanted) {
      const bytes = Buffer.concat(chunks)
      chunks = [bytes]
      const length = bytes.readUInt32BE()
      if (length > maxBytes)
        throw new Error(`A message has ${length} bytes; the server accepts at most ${maxBytes}`)
      const end = LENGTH_BYTES + length
      wanted = end
      if (size < end) break
      const message: unknown = deserialize(bytes.subarray(LENGTH_BYTES, end))
      if (!Value.Check(type, message))
        throw new Error('The server and the command are not of the same release')
      yield message
      chunks = [bytes.subarray(end)]
      size -= end
      wanted = LENGTH_BYTES
    }
  }
}

export function toFailure(error: unknown): Static<typeof Failure> {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error) }
  const { name, message, cause } = error
  const fields = error instanceof SqlError || error instanceof DatabaseUnavailable ? error : {}
  const { code, constraint, table }: { code?: string; constraint?: string; table?: string } = fields
  return {
    ...{ name, message },
    ...(code !== undefined && { code }),
    ...(constraint !== undefined && { constraint }),
    ...(table !== undefined && { table }),
    ...(cause instanceof Error && { cause: cause.message }),
  }
}

export function toError({
  name,
  message,
  code = '',
  constraint,
  table,
  cause,
}: Static<typeof Failure>): Error {
  const reason = new Error(cause)
  if (name === 'SqlError') return new SqlError(code, { constraint, table }, reason)
  if (name === 'DatabaseUnavailable') return new DatabaseUnavailable(message, { cause: reason, code })
  return new Error(message)
}
