/** Changes that ask nothing of the row but what SQL can ask of it: one statement finds, checks and writes it. */

import type { Connection } from '../../../drizzle/client/types.ts'
import type { MaybePromise } from '../../../lib/maybe-promise.ts'
import { type Actor, getRule } from '../../access/index.ts'
import type { AnyCard, Row } from '../definition.ts'
import { selectOf } from '../read/include.ts'
import type { Stores } from '../sql/write.ts'

/** In columns of these types, two values are the same where SQL says so, and one takes the place of the other. */
const PLAIN = /^(text|bigint|smallint|boolean)\b/

/**
 * @returns what tries to change a row so, and gives the row as it then is. Undefined where nothing was written: the row
 * is not there, is another's, has these values already, or is not to be changed in this way. Which of them it was, a
 * look at the row tells.
 */
export function createDirect(card: AnyCard, { updateUnseen }: Stores) {
  const { columns } = selectOf(card)
  const { guard, prepare, change } = card.actions ?? {}
  const watched = new Set([
    ...(card.immutable ?? []),
    ...Object.keys(card.transitions ?? {}),
    // What a row is found by is made of all of these together.
    ...('search' in columns ? card.search : []),
  ])
  const settable = new Set(
    Object.entries(columns)
      .filter(([name, column]) => !watched.has(name) && PLAIN.test(column.getSQLType()))
      .map(([name]) => name),
  )
  const isPlain = !guard && !prepare && !change

  return (
    connection: Connection,
    { id, actor, parent }: { id: string; actor: Actor; parent: string | undefined },
    members: Readonly<Record<string, unknown>>,
  ): MaybePromise<Row | undefined> => {
    const names = Object.keys(members)
    const rule = getRule(card.access, 'update', actor)
    const suits = isPlain && rule !== false && names.length > 0 && names.every((name) => settable.has(name))
    return suits ? updateUnseen(connection, { id, parent, rule, actor }, members) : undefined
  }
}
