/** Changes that ask nothing of the row but what SQL can ask of it: one statement finds, checks and writes it. */

import type { Connection } from '../../../drizzle/client/types.ts'
import type { MaybePromise } from '../../../lib/maybe-promise.ts'
import { type Actor, ruleFor } from '../../access/index.ts'
import type { Resource } from '../compile.ts'
import type { Row } from '../definition.ts'

/** In columns of these types, two values are the same where SQL says so, and one takes the place of the other. */
const PLAIN = /^(text|bigint|smallint|boolean)\b/

/**
 * @returns what tries to change a row so, and gives the row as it then is. Undefined where nothing was written: the row
 * is not there, is another's, has these values already, or is not to be changed in this way. Which of them it was, a
 * look at the row tells.
 */
export function createDirect(resource: Resource) {
  const { columns, stores } = resource
  const { guard, prepare, change } = resource.actions ?? {}
  const watched = new Set([
    ...(resource.immutable ?? []),
    ...Object.keys(resource.transitions ?? {}),
    // What a row is found by is made of all of these together.
    ...('search' in columns ? resource.search : []),
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
    const rule = ruleFor(resource.access, 'update', actor)
    const suits = isPlain && rule !== false && names.length > 0 && names.every((name) => settable.has(name))
    return suits ? stores.updateUnseen(connection, { id, parent, rule, actor }, members) : undefined
  }
}
