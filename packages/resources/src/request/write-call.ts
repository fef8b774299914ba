/** A write that a client asks for: by a request of its own, by an operation of a batch, or by a row of an import. */
import { invalidBody, type Violation } from '@resource-api/api/errors'
import type { PreconditionHeaders } from '@resource-api/api/preconditions'
import type { OpenedBody, Validated } from '@resource-api/api/validation'
import type { RowId } from '@resource-api/database/key'
import type { StoreCall } from '../definition/store.ts'
import type { UsedRights } from '../sql/used-rights.ts'
import type { ResourceAddress } from './resource-address.ts'

export interface WriteCall extends StoreCall {
  /** Whether it is a request of its own. Default: it is part of a batch or an import. */
  isAlone?: boolean
  address: ResourceAddress
  /**
   * Returns the fields of the body, normalized and validated by the schema of the route; as they were sent if `check` throws.
   * @param id that of the path, if the body may have it too
   * @throws ApiError 409 if the body has another id
   */
  open(id?: RowId): OpenedBody
  /** Whether a change may repeat the present values of fields that the caller may only read. Default: as PUT alone does. */
  mayRepeat?: boolean
  preconditions: PreconditionHeaders
  /** The id of the resource that a creation creates. Default: a new one. */
  createdId?: RowId
  /** Takes the permissions that are checked again before the transaction ends. */
  usedRights?: UsedRights
  /**
   * Throws the first error of the call in the order of the API.
   * @param findViolations returns the violations of the body that only the call knows
   * @throws ApiError 400, 404, 409, 422
   */
  check(findViolations?: () => readonly Violation[]): void
}

/** Creates the `check` of a call whose body is not that of the request. */
export const createCheck =
  ({ error }: Validated): WriteCall['check'] =>
  (findViolations) => {
    if (error && error.violations.length === 0) throw error
    const all = [...(findViolations?.() ?? []), ...(error?.violations ?? [])]
    if (all.length > 0) throw invalidBody(all)
  }
