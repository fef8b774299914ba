/** Checks that the caller may read the rows that a write refers to. */
import type { Connection } from '../../../drizzle/client/types.ts'
import { type Actor, getRule, narrowRule, type Rule } from '../../access/index.ts'
import { invalidBody } from '../../errors/index.ts'
import type { Resource } from '../resource.ts'

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

/** Returns a reference that has to be checked; undefined if the rule of its target permits the value in any row. */
function toOpen({ field, to, foreign }: Resource['references'][number], value: unknown, actor: Actor) {
  const rule = getReadRule(to, actor)
  const remaining = narrowRule(rule, foreign, value, actor)
  return remaining === true ? undefined : { field, to, foreign, value, rule, isRefused: remaining === false }
}

/** Creates the functions that check the references of one resource. That a row exists is checked by its foreign key. */
export function createReferences({ references, parent }: Resource) {
  const inBody = references.filter(({ field }) => field !== parent?.member)
  const inPath = references.find(({ field }) => field === parent?.member)

  /** Returns whether the caller may read the row, which stays as it is until the transaction ends. */
  const isReadable = async (
    connection: Connection,
    { to, foreign, value, rule, isRefused }: OpenReference,
    actor: Actor,
  ): Promise<boolean> => !isRefused && to.select.isReadable(connection, foreign, value, { rule, actor })

  return {
    isReadable,

    /** Returns the reference to the parent, if it has to be checked. */
    findOpenParent: (id: string | undefined, actor: Actor): OpenReference | undefined =>
      inPath && toOpen(inPath, id, actor),

    /**
     * Returns the references among the named fields of a row that have to be checked: not those to the caller, and none to
     * a resource of which the caller may read all rows.
     */
    findOpen(row: Readonly<Record<string, unknown>>, names: Iterable<string>, actor: Actor): OpenReference[] {
      const sent = new Set(names)
      return inBody.flatMap((reference) => {
        const value = row[reference.field]
        if (!sent.has(reference.field) || value === null || value === undefined) return []
        return toOpen(reference, value, actor) ?? []
      })
    },

    /**
     * Checks references in the transaction of the write.
     * @throws ApiError 422, the same as for a row that does not exist
     */
    async check(connection: Connection, open: readonly OpenReference[], actor: Actor): Promise<void> {
      const refused: string[] = []
      // Rows are locked in the order of their ids, as everywhere.
      for (const reference of open.toSorted((a, b) => (String(a.value) < String(b.value) ? -1 : 1))) {
        if (!(await isReadable(connection, reference, actor))) refused.push(reference.field)
      }
      if (refused.length === 0) return
      throw invalidBody(
        refused.sort().map((field) => ({ field, message: 'does not exist', code: 'NOT_FOUND' })),
      )
    },
  }
}
