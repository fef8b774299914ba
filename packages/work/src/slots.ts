/** The slots of a kind of work in a process, which are the attempts that it makes at the same time. */
import { NIL_UUID } from '@resource-api/database/values'

/** The group of all rows of a kind without groups. */
export const NO_GROUP = NIL_UUID

/** A group that has rows which are due, or will be. */
export type DueGroup<State = unknown> = {
  id: string
  /** What the query of the groups says of it; null of `NO_GROUP`. */
  state: State
  /** The milliseconds until its first row is due; 0 or less if it is. */
  due_in_ms: number
}

/** The slots that are taken, by their groups: in each, `length` attempts may be made one after the other. */
export type Reservation = Record<string, { count: number; length: number }>

/** The slots of a kind of work in a process. */
export interface Slots<State = unknown> {
  /** Sets which groups have due rows. Others have none. */
  setDue(due: readonly DueGroup<State>[]): void
  /** Returns for how many milliseconds a group has waited for its turn that is neither slow nor failing. */
  getLongestWait(): number
  /** Takes the slots for the attempts that may begin now. */
  reserve(): Reservation
  /**
   * Gives slots back that were taken for more rows than were claimed.
   * @returns the rows for each slot that is kept
   */
  assign<T extends { group: string }>(reserved: Readonly<Reservation>, claimed: readonly T[]): T[][]
  /** Gives a slot of a group back. */
  release(id: string): void
  /** Records how an attempt ended. @returns whether the next one may follow in the same slot */
  record(id: string, isSuccess: boolean, durationMs: number): boolean
}

/** Creates slots that all rows share in the order in which they are due. */
export function createSlots(count: number): Slots {
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
      return free > 0 ? { [NO_GROUP]: { count: free, length: 1 } } : {}
    },
    assign(reserved, claimed) {
      const wanted = reserved[NO_GROUP]?.count ?? 0
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
