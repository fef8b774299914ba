/** The face of the package. */

export { runWithTimeout } from './attempts.ts'
export {
  type ClaimedWork,
  GIVEN_BACK,
  toErrorText,
  type WorkKind,
  type WorkResult,
} from './kinds.ts'
export type {} from './plugin.ts'
export { default as work } from './plugin.ts'
export { createPollInterval, POLL_INTERVAL_MS } from './poll-interval.ts'
export { createPruning, deleteInBatches, getUuidBefore } from './prune.ts'
export type {} from './repeat.ts'
export { createRetrySchedule, RETRY_DELAYS_MS } from './retry-schedule.ts'
export { createSlots, type DueGroup, type Reservation, type Slots } from './slots.ts'
export { getWaitSeconds, insertWork, type WorkState } from './work-store.ts'
export { type Queue, Worker } from './worker.ts'
