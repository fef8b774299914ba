/**
 * Serves the embedded database of this process to commands, through a Unix socket that only its owner may open.
 *
 * @electric-sql/pglite-socket 0.2.17 cannot: it holds the engine for one message of a client, not for a transaction. In
 * a trial, a statement of the server between two of a client's transaction read uncommitted rows, and its own insert
 * was lost when the client rolled back. It also requires PGlite 0.5.14, which is older than the one here.
 */
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { Semaphore } from '../../lib/semaphore.ts'
import { DatabaseUnavailable } from '../errors.ts'
import { withTimeout } from '../server/ping.ts'
import type { Database, Queryable, Row } from '../types.ts'
import { getSocketPath, Request, readMessages, toFailure, writeMessage } from './socket.ts'

/**
 * Milliseconds that a transaction of a command may wait for its next statement. Requests wait for its end: less than a
 * request waits for the database.
 */
const IDLE_TIMEOUT_MS = 1_500

/** Bytes of a request. `restore` sends batches of rows of one MiB, or a single row that is longer. */
const MAX_REQUEST_BYTES = 67_108_864

/** Read and write for the owner only, as the mode of the socket. */
const UMASK = 0o177

export interface DatabaseServer {
  /** Returns whether a command copies the files of the database. */
  isCopied(): boolean
  /** Ends all connections, which rolls back their transactions. */
  close(): Promise<void>
}

/**
 * The caller must hold the lock of the folder.
 * @throws Error if the folder can have no socket
 */
export async function serveDatabase(database: Database, dataDir: string): Promise<DatabaseServer> {
  const path = getSocketPath(dataDir)
  // The one of a process that was killed: this process holds the lock.
  rmSync(path, { force: true })
  const sockets = new Set<Socket>()
  const copies = new Semaphore([{}])
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    // A command that was killed: its transaction is rolled back, and there is no one to answer.
    socket.on('error', () => undefined)
    void new Conversation(socket, database, copies).serve().finally(() => socket.destroySoon())
  })
  const umask = process.umask(UMASK)
  try {
    // Creates the socket before it returns.
    server.listen(path)
  } finally {
    process.umask(umask)
  }
  await once(server, 'listening')
  return {
    isCopied: () => copies.getLoad().used > 0,
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

class Conversation {
  readonly #socket: Socket
  readonly #database: Database
  /** One copy at a time: PostgreSQL allows each session one, and the engine has one session. */
  readonly #copies: Semaphore<object>
  readonly #requests: AsyncGenerator<Request, undefined>

  constructor(socket: Socket, database: Database, copies: Semaphore<object>) {
    this.#socket = socket
    this.#database = database
    this.#copies = copies
    this.#requests = readMessages(socket, Request, MAX_REQUEST_BYTES)
  }

  /** Answers requests until the connection ends, or a request fails other than by its statement. */
  async serve(): Promise<void> {
    try {
      for (let request = await this.#read(); request; request = await this.#read()) await this.#serve(request)
    } catch (error) {
      if (this.#socket.writable) writeMessage(this.#socket, { failure: toFailure(error) })
    }
  }

  async #serve(request: Request): Promise<void> {
    if (request.kind === 'open') return this.#checkSchema(request.schema)
    if (request.kind === 'run') return this.#answer(this.#database, request)
    if (request.kind === 'begin') {
      await this.#database.transaction((tx) => this.#serveTransaction(tx))
      return this.#reply()
    }
    if (request.kind === 'startCopy') return this.#copies.run(() => this.#serveCopy())
    throw new Error(`Unexpected message: ${request.kind}`)
  }

  #checkSchema(schema: string): void {
    if (schema !== this.#database.schema)
      throw new Error(
        `The running server uses the schema ${this.#database.schema}: set DATABASE_SCHEMA to it for the command too`,
      )
    this.#reply()
  }

  /** Resolves if the transaction is to be committed, and throws if it is to be rolled back. */
  async #serveTransaction(tx: Queryable): Promise<void> {
    this.#reply()
    for (;;) {
      const next = this.#read()
      await withTimeout(next, IDLE_TIMEOUT_MS).catch(() => {
        throw new DatabaseUnavailable(
          `The transaction was rolled back: it had no statement for ${IDLE_TIMEOUT_MS} ms`,
        )
      })
      const request = await next
      if (request?.kind === 'commit') return
      if (request?.kind !== 'run') throw new Error('The transaction was rolled back: the command ended')
      await this.#answer(tx, request)
    }
  }

  /** PostgreSQL's online backup: the files may change while they are copied, and the log makes them consistent. */
  async #serveCopy(): Promise<void> {
    await this.#database.run("select pg_backup_start('copy', true)")
    let stopped: Row[] = []
    try {
      this.#reply()
      await this.#read()
    } finally {
      stopped = await this.#database.run('select labelfile from pg_backup_stop(false)')
    }
    this.#reply(stopped)
    // Until the log is copied: the start of another copy removes its files.
    await this.#read()
  }

  async #answer(connection: Queryable, { text, params, customPlan }: Extract<Request, { kind: 'run' }>) {
    await connection.run(text, params, { customPlan }).then(
      (rows) => this.#reply(rows),
      (error: unknown) => writeMessage(this.#socket, { failure: toFailure(error) }),
    )
  }

  #reply(rows: Row[] = []): void {
    writeMessage(this.#socket, { rows })
  }

  async #read(): Promise<Request | undefined> {
    return (await this.#requests.next()).value
  }
}
