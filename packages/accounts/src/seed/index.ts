/** The face of demo rows, which an application has for its resources. */
export { Random } from './random.ts'
export {
  buildBase,
  countBefore,
  DAY_MS,
  getMoment,
  getRowId,
  pickIndex,
  type RowOf,
  type SeedContext,
  type SeedStep,
  toIsoString,
} from './step.ts'
export { demoUsers, drawBuyer, getPerson, slug } from './users.ts'
