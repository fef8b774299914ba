/** Connections that are kept open between attempts, for each origin. */
import type { LookupFunction, Socket } from 'node:net'
import { buildConnector, Client } from 'undici'
import { AttemptError, TOO_LARGE } from './failures.ts'

export interface Connection {
  client: Client
  /** Begins to count the bytes of a response. */
  startResponse(): void
  /** Ends the connection, and its request with an error, also while the connection is being made. */
  end(reason: Error): void
}

/** Idle connections are closed after this time, also if the server offers to keep them longer. */
const KEEP_ALIVE_MS = 4_000
/** Stated because the default of undici follows a flag of Node.js. */
const MAX_HEADER_BYTES = 16_384
/**
 * Bytes of a response as they arrive, interim responses, its reason phrase and the extensions of its chunks included, which
 * undici does not limit. A body that is longer than what is read never gets here: reading stops before.
 */
const MAX_RESPONSE_BYTES = 1_048_576
const PIECE_BYTES = 4_096
/**
 * How long one address of several may take to accept a connection before the next one is tried. The default of
 * Node.js gives up servers on another continent.
 */
const ADDRESS_ATTEMPT_MS = 1_000

/**
 * Makes the parser of undici read small pieces, and none after the connection was ended: it parses a piece to its end also
 * after too many headers, with a new error for each. With large pieces, a response of tiny headers would hold the event loop.
 * @param countBytes called with the bytes of each piece
 */
function limitReads(socket: Socket, countBytes: (count: number) => void): void {
  const read = socket.read.bind(socket)
  socket.read = (size) => {
    // Node.js itself calls it with 0.
    if (size !== undefined) return read(size)
    if (socket.destroyed) return null
    const piece: Buffer | null = socket.readableLength > PIECE_BYTES ? read(PIECE_BYTES) : read()
    countBytes(piece?.length ?? 0)
    return piece
  }
}

/**
 * Creates the pool. A client of undici has one connection. Its `Agent` is not used: for an aborted request it makes another
 * connection, which stays open without a request (https://github.com/nodejs/undici/issues/5845), and it does not abort a
 * connection that is being made (https://github.com/nodejs/undici/issues/386).
 */
export function createConnections(lookup: LookupFunction) {
  const open = new Set<Connection>()
  const idle = new Map<string, Connection[]>()

  function removeIdle(origin: string, connection: Connection): void {
    const rest = idle.get(origin)?.filter((other) => other !== connection) ?? []
    if (rest.length > 0) idle.set(origin, rest)
    else idle.delete(origin)
  }

  function connect(origin: string): Connection {
    const socket = new AbortController()
    const makeSocket = buildConnector({
      lookup,
      autoSelectFamily: true,
      autoSelectFamilyAttemptTimeout: ADDRESS_ATTEMPT_MS,
      timeout: 0,
      signal: socket.signal,
    })
    let bytes = 0
    const countBytes = (count: number) => {
      bytes += count
      if (bytes > MAX_RESPONSE_BYTES) connection.end(new AttemptError(TOO_LARGE))
    }
    const client = new Client(origin, {
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: KEEP_ALIVE_MS,
      maxHeaderSize: MAX_HEADER_BYTES,
      // The caller has one timeout for all steps, and ends the connection.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: (target, callback) =>
        makeSocket(target, (...result) => {
          if (result[1]) limitReads(result[1], countBytes)
          callback(...result)
        }),
    })
    const connection: Connection = {
      client,
      startResponse() {
        bytes = 0
      },
      end(reason) {
        open.delete(connection)
        removeIdle(origin, connection)
        void client.destroy(reason)
        socket.abort()
      },
    }
    open.add(connection)
    // If the server closes the connection when a request is about to be sent, undici makes another one for it.
    client.on('disconnect', (_origin, _targets, error) => {
      if (idle.get(origin)?.includes(connection)) connection.end(error)
    })
    return connection
  }

  return {
    /** Returns a connection without a request: an idle one, or one that is made for its first request. */
    take(origin: string): Connection {
      const connection = idle.get(origin)?.at(-1)
      if (connection === undefined) return connect(origin)
      removeIdle(origin, connection)
      return connection
    },

    /** Keeps a connection, whose response is complete, for the next request. */
    release(origin: string, connection: Connection): void {
      if (connection.client.stats.connected) idle.set(origin, [...(idle.get(origin) ?? []), connection])
      else connection.end(new Error('The server closed the connection'))
    },

    endAll(reason: Error): void {
      for (const connection of open) connection.end(reason)
    },
  }
}
