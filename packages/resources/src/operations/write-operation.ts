/** A write as its steps. Requests, batches and imports run the same ones. */
import type { Actor } from '@resource-api/api/actor'
import type { Fields } from '@resource-api/api/validation'
import type { Connection } from '@resource-api/database'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Prepared } from '../definition/code.ts'
import type { Row } from '../definition/store.ts'
import type { ResultFormat, WriteResponse } from '../idempotency/stored-responses.ts'
import type { ResourceAddress } from '../request/resource-address.ts'
import type { WriteCall } from '../request/write-call.ts'
import type { Written } from '../response/response-builder.ts'
import type { RowLock } from './row-locks.ts'

/** The fields of the body, if they are those of the resource, and their path. */
export interface Sent {
  fields?: Fields
  /** '' or 'data.attributes.' */
  prefix: string
}

export type PreparedColumns = Prepared<Row, Row> | undefined

/** What an operation has read from a call. */
export interface WriteInput extends Sent {
  call: WriteCall
}

/** The write of one row. */
export interface RowWrite<Input, Found> {
  input: Input
  found: Found
  prepared: PreparedColumns
}

/** The steps of a write, in their order. Errors name fields as the definition does. */
export interface WriteOperation<Input extends WriteInput = WriteInput, Found = unknown> {
  /** Whether it runs once for each Idempotency-Key. Default: it needs no key. */
  isIdempotent?: boolean
  /** Whether the write may remove its own row, so that a retry with the key does not find it. */
  mayRemove?: boolean
  /** Whether the row may be written together with those of other calls, by one statement. */
  isJoined?(input: Input): boolean
  /** Checks all that needs no query. @throws ApiError 400, 404, 409, 422 */
  read(call: WriteCall): Input
  /** Returns the lock on the row of the address; a creation has none. */
  getLock?(input: Input): RowLock
  /**
   * Checks the caller (401); finds the row (404), which it locks if `isLocking`, and checks access to it (403).
   * @throws ApiError 401, 403, 404: they come before a stored response
   */
  find(connection: Connection, input: Input, isLocking: boolean): Promise<Found>
  /** Does slow work, such as hashing a password, for which no transaction waits. @throws ApiError */
  prepare?(connection: Connection, input: Input, found: Found): Promise<PreparedColumns>
  /** Checks what the rows decide (403, 428, 412, 409), then references (422), and writes the rows. @throws ApiError */
  write(connection: Connection, writes: readonly RowWrite<Input, Found>[]): Promise<Written[]>
  /** Whether `find` and `write` are one statement, which needs no transaction. */
  isOneStatement?(input: Input): boolean
  /**
   * Finds and writes by one statement, which waits for no other transaction.
   * @returns undefined if it cannot
   */
  writeAtOnce?(connection: Connection, input: Input): Promise<Written | undefined>
}

/** What the write of a request needs besides its steps: how it is addressed, and what its response is. */
export interface WriteScope {
  /** @throws ApiError 401 */
  readAddress(request: FastifyRequest): ResourceAddress
  /** Returns what has to be the same in all requests with one Idempotency-Key. */
  getKeyContent(request: FastifyRequest, actor: Actor): unknown
  /** Builds the response, in the transaction that may store it. */
  buildResponse(
    request: FastifyRequest,
    reply: FastifyReply,
    actor: Actor,
    written: Written,
  ): WriteResponse<unknown>
  /** How its result is stored. */
  format: ResultFormat<unknown>
  /** Returns an error with the fields named as they stood in the body. */
  toSentError(error: unknown, sent: Sent, actor: Actor): unknown
}
