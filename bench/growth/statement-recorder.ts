/** Records the statements that the app runs, and replaces cursor positions in them. */
import { createDatabase } from '../../packages/database/src/client/database.ts'
import type { Database, Param } from '../../packages/database/src/client/index.ts'

export interface RecordedStatement {
  text: string
  params: readonly Param[]
  /** Whether PostgreSQL plans each execution for its values. */
  hasCustomPlan: boolean
}

/** Statements of authentication: they run when the credential cache expires, whatever the request is. */
const AUTHENTICATION = /api_keys|^select "id", "status" from "users"/

/**
 * Replaces the values of the cursor in the parameters of a statement. Only cursor values are cast (`$1::`), except for
 * the array of ids with which included resources are read. In a sort of mixed directions a value occurs several times.
 */
function replacePosition(
  statement: RecordedStatement,
  position: readonly string[] | undefined,
): RecordedStatement {
  const { text, params } = statement
  if (!position || text.includes('unnest(')) return statement
  const indexes = new Set([...text.matchAll(/\$(\d+)::/g)].map(([, number]) => Number(number) - 1))
  if (indexes.size === 0) return statement
  const before = [...new Set([...indexes].map((index) => params[index]))]
  if (before.length !== position.length) throw new Error(`Two values of the cursor are equal: ${before}`)
  const after = new Map(before.map((value, i) => [value, position[i] ?? null]))
  return {
    ...statement,
    params: params.map((param, i) => (indexes.has(i) ? (after.get(param) ?? null) : param)),
  }
}

export function createStatementRecorder(database: Database) {
  let position: readonly string[] | undefined
  let statements: RecordedStatement[] = []
  const recorded = createDatabase({
    ...database.$client,
    run(text, params = [], options = {}) {
      const { customPlan: hasCustomPlan = false } = options
      const statement = replacePosition({ text, params, hasCustomPlan }, position)
      if (!AUTHENTICATION.test(text)) statements.push(statement)
      return database.$client.run(text, statement.params, options)
    },
  })
  return {
    /** The database to give to the app. */
    recorded,
    /**
     * Sets the position from which cursor pages are read, instead of the position in the cursor. Cursors are signed by
     * the server, and to page to the middle of millions of rows takes too long.
     */
    setPosition(newPosition: readonly string[] | undefined) {
      position = newPosition
    },
    /** Returns the statements since the last call. */
    take(): RecordedStatement[] {
      const taken = statements
      statements = []
      return taken
    },
  }
}

export type StatementRecorder = ReturnType<typeof createStatementRecorder>
