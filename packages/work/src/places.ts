/** The places of a kind of work in a process, which are the attempts that it makes at the same time. */
import { NIL_UUID } from '@resource-api/database/internal'

/** An endpoint that has due deliveries, or the due rows of another kind. */
export type DueGroup = {
  /** The endpoint; of another kind, a constant. */
  id: string
  /** The owner of the endpoint; of another kind, null. */
  owner_id: string | null
  /** Whether its latest attempt failed. */
  is_failing: boolean
  /** How long its latest successful attempt took; null if there was none. */
  last_duration_ms: number | null
  /** The milliseconds until its first delivery is due; 0 or less if it is. */
  due_in_ms: number
}

/** The places that are taken, by the id of the endpoint: in each, `length` deliveries may be sent one after the other. */
export type Reservation = Record<string, { count: number; length: number }>

/** The places of a kind of work in a process. */
export interface Places {
  /** Sets which groups have due rows. Others have none. */
  setDue(due: readonly DueGroup[]): void
  /** Returns for how many milliseconds an endpoint has waited for its turn that is neither slow nor failing. */
  getLongestWait(): number
  /** Takes the places for the attempts that may begin now. */
  reserve(): Reservation
  /**
   * Gives places back that were taken for more rows than were claimed.
   * @returns the rows for each place that is kept
   */
  assign<T extends { endpoint_id: string | null }>(
    reserved: Readonly<Reservation>,
    claimed: readonly T[],
  ): T[][]
  /** Gives a place of a group back. */
  release(id: string): void
  /** Records how an attempt ended. @returns whether the next one may follow in the same place */
  record(id: string, isSuccess: boolean, durationMs: number): boolean
}

/** Creates places that all rows share in the order in which they are due. */
export function createSlots(count: number): Places {
  let running = 0
  let isDue = false
  return {
    setDue(due) {
      isDue = due.some(({ due_in_ms }) => due_in_ms <= 0)
    },
    getLongestWait: () => 0,
    reserve() {
      const free = isDue ? count - running : 0
      running += free
      return free > 0 ? { [NIL_UUID]: { count: free, length: 1 } } : {}
    },
    assign(reserved, claimed) {
      const wanted = reserved[NIL_UUID]?.count ?? 0
      running -= wanted - claimed.length
      if (claimed.length < wanted) isDue = false
      return claimed.map((row) => [row])
    },
    release() {
      running -= 1
    },
    record: () => true,
  }
}
