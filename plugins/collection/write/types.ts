/** The parts of a request that a write depends on. */
import type { Precondition } from '../../http/preconditions.ts'
import type { KeyedWrite, StoredResponse } from '../../idempotency/keyed-write.ts'
import type { Row, Tools } from '../definition.ts'
import type { BodyReader } from '../request/body.ts'
import type { ResourceAddress } from '../request/resource-address.ts'

/** The input of a write, read from the request. */
export interface Write extends ResourceAddress {
  /** Undefined if there is nothing to check. */
  precondition: Precondition | undefined
  keyedWrite: KeyedWrite | undefined
  /** Creates the tools on demand, since few writes need them. */
  getTools: () => Tools
  /** Returns the entity tag of a row as this request would receive it. */
  getTag: (row: Row) => string
  /** Builds the response for the written row. */
  respond: (row: Row) => StoredResponse
}

/** The body of a change, with its reader. */
export interface ChangeBody {
  mode: 'replace' | 'update'
  reader: BodyReader
  fields: Record<string, unknown>
}
