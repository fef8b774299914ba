/** The embedded database of a running server, as a command uses it: a connection for each statement or transaction. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { createDatabase } from '../database.ts'
import { DatabaseUnavailable } from '../errors.ts'
import { createPing } from '../server/ping.ts'
import { runTransactionBody } from '../transaction.ts'
import type { Database, DatabaseClient, Queryable, Row } from '../types.ts'
import { toTextValues } from '../values.ts'
import { NoServer } from './folder-lock.ts'
import { getSocketPath, Reply, type Request, readMessages, toError, writeMessage } from './socket.ts'

/** @throws NoServer */
async function openSocket(dataDir: string): Promise<Socket> {
  try {
    const socket = connect(getSocketPath(dataDir))
    await once(socket, 'connect')
    return socket
  } catch (cause) {
    throw new NoServer('No server can be reached through the socket of the folder', { cause })
  }
}

/** One connection to the server. */
export class ServerSession implements Queryable {
  readonly #socket: Socket
  readonly #replies: AsyncGenerator<Reply, undefined>

  private constructor(socket: Socket) {
    this.#socket = socket
    // Reported to the reader of the replies.
    socket.on('error', () => undefined)
    this.#replies = readMessages(socket, Reply)
  }

  /** Calls `work` with a new connection and ends it afterwards. @throws NoServer */
  static async use<T>(dataDir: string, work: (session: ServerSession) => Promise<T>): Promise<T> {
    const socket = await openSocket(dataDir)
    const session = new ServerSession(socket)
    try {
      return await work(session)
    } finally {
      socket.destroy()
    }
  }

  /** @throws as `Queryable.run`; DatabaseUnavailable if the server ends */
  async request(request: Request): Promise<Row[]> {
    writeMessage(this.#socket, request)
    const reply = await this.#read()
    if ('failure' in reply) throw toError(reply.failure)
    return reply.rows
  }

  run: Queryable['run'] = (text, params = [], { customPlan = false } = {}) =>
    this.request({
      kind: 'run',
      text,
      params: toTextValues(params),
      customPlan,
    })

  async #read(): Promise<Reply> {
    const ended = 'The running server has ended the connection'
    const { value } = await this.#replies.next().catch((cause: unknown) => {
      throw new DatabaseUnavailable(ended, { cause })
    })
    if (!value) throw new DatabaseUnavailable(ended)
    return value
  }
}

/** @throws NoServer; Error if the server uses another schema */
export async function connectToServer(dataDir: string, schema: string): Promise<Database> {
  await ServerSession.use(dataDir, (session) => session.request({ kind: 'open', schema }))
  const run: DatabaseClient['run'] = (...statement) =>
    ServerSession.use(dataDir, (session) => session.run(...statement))
  return createDatabase({
    kind: 'embedded',
    schema,
    run,
    transaction: (work) =>
      ServerSession.use(dataDir, async (session) => {
        await session.request({ kind: 'begin' })
        const result = await runTransactionBody(session.run, work)
        await session.request({ kind: 'commit' })
        return result
      }),
    ping: createPing(() => run('select 1')),
    getLoad: () => ({ size: 1, used: 0, waiting: 0 }),
    estimateWait: () => 0,
    close: async () => undefined,
  })
}
