/** The parts of a request that a write depends on. */
import type { Actor } from '../../access/index.ts'
import type { Precondition } from '../../http/preconditions.ts'
import type { KeyedWrite, StoredResponse } from '../../idempotency/keyed-write.ts'
import type { Row, Tools } from '../definition.ts'
import type { BodyReader } from '../request/body.ts'

/** The input of a write, read from the request. */
export interface Write {
  id: string
  actor: Actor
  /** The id of the parent in the path. */
  parent: string | undefined
  precondition: Precondition
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
