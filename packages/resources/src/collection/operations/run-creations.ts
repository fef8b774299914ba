/** Runs the own code of creations: of all together, or of one after the other. */
import { mapInTurns } from '@resource-api/database/internal'
import type { CreateCode, Creation } from '../code.ts'
import type { Row } from '../store.ts'

type Code = CreateCode<Row, Partial<Row>>
type RunCreations = (creations: readonly Creation<Row, Partial<Row>>[]) => Promise<Row[]>

/**
 * Returns the function that creates rows by the code of a collection; undefined if it has none.
 * @param isAlone whether the creation is a request of its own
 */
export function getRunCreations(
  { run, runAll, runAlone }: Code = {},
  isAlone = false,
): RunCreations | undefined {
  const runOne = isAlone && runAlone ? runAlone : runAll ? undefined : run
  return runOne ? (creations) => mapInTurns(creations, (creation) => runOne(creation)) : runAll
}
