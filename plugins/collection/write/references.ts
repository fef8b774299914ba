/** Checks that the caller may read the rows that a write refers to. */
import type { Connection } from '../../../drizzle/client/types.ts'
import { type Actor, getRule, narrowRule, type Rule } from '../../access/index.ts'
import { invalidBody } from '../../errors/index.ts'
import type { Resource } from '../compile.ts'

/** A reference that only the row can permit. */
interface OpenReference {
  field: string
  to: Resource
  /** The column of the other row, and its value. */
  foreign: string
  value: unknown
  rule: Rule
  /** Whether the caller can read no row with this value. */
  isRefused: boolean
}

/** Without an operation that reads one row, that of lists decides. */
const getReadRule = ({ access }: Resource, actor: Actor): Rule =>
  getRule(access, access.read ? 'read' : 'list', actor)

/** Creates the functions that check the references in the bodies of one resource. */
export const createReferences = ({ references }: Resource) => ({
  /**
   * Returns the references among the named fields of a row that have to be checked: not those to the caller, and none to a
   * resource of which the caller may read all rows. That the row exists is checked by the foreign key.
   */
  findOpen(row: Readonly<Record<string, unknown>>, names: Iterable<string>, actor: Actor): OpenReference[] {
    const sent = new Set(names)
    return references.flatMap(({ field, to, foreign }) => {
      const value = row[field]
      if (!sent.has(field) || value === null || value === undefined) return []
      const rule = getReadRule(to, actor)
      const remaining = narrowRule(rule, foreign, value, actor)
      return remaining === true ? [] : [{ field, to, foreign, value, rule, isRefused: remaining === false }]
    })
  },

  /**
   * Checks references in the transaction of the write. The rows stay as they are until it ends.
   * @throws ApiError 422, the same as for a row that does not exist
   */
  async check(connection: Connection, open: readonly OpenReference[], actor: Actor): Promise<void> {
    const refused = new Set<string>()
    // Rows are locked in the order of their ids, as everywhere.
    for (const { field, to, foreign, value, rule, isRefused } of open.toSorted((a, b) =>
      String(a.value) < String(b.value) ? -1 : 1,
    )) {
      const isReadable =
        !isRefused && (await to.select.isReadable(connection, foreign, value, { rule, actor }))
      if (!isReadable) refused.add(field)
    }
    if (refused.size === 0) return
    throw invalidBody(
      [...refused].sort().map((field) => ({ field, message: 'does not exist', code: 'NOT_FOUND' })),
    )
  },
})
