/** The parts of a request that a write depends on. */
import type { KeyedWrite, StoredResponse } from '../../idempotency/keyed-write.ts'
import type { ChangeOrigin } from '../../outbox/origin.ts'
import type { Row, Tools } from '../definition.ts'
import type { BodyReader } from '../request/body.ts'
import type { ResourceAddress } from '../request/resource-address.ts'

/** The input of a write, read from the request. */
export interface Write extends ResourceAddress {
  /** The validated fields of the body. */
  fields: Record<string, unknown>
  origin: ChangeOrigin
  keyedWrite: KeyedWrite | undefined
  /** Creates the tools on demand, since few writes need them. */
  getTools: () => Tools
  /** Builds the response for the written row. */
  respond: (row: Row) => StoredResponse
}

/** The input of a write that changes a row. */
export interface ChangingWrite extends Write {
  mode: 'replace' | 'update'
  /** Has read the fields. */
  reader: BodyReader
  /** Checks the preconditions on the current row; undefined if there are none. It throws ApiError 412 or 428. */
  checkPrecondition: ((row: Row) => void) | undefined
}

export type RemovingWrite = ResourceAddress & Pick<ChangingWrite, 'checkPrecondition' | 'origin'>
