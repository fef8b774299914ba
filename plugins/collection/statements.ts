/** Statements with named values: made once for each shape, then run with the values of a request. */
import { fillPlaceholders, sql } from 'drizzle-orm'
import type { Connection, Param } from '../database/types.ts'
import type { Row } from './define.ts'

interface Statement {
  text: string
  params: unknown[]
}

export type Values = Readonly<Record<string, Param>>

const MOST_STATEMENTS = 2000

/** Statements by the key of their shape. A caller can ask for many shapes: the oldest make room. */
export function createStatements() {
  const statements = new Map<string, Statement>()
  return (key: string, make: () => { toSQL(): { sql: string; params: unknown[] } }): Statement => {
    const known = statements.get(key)
    if (known) return known
    const { sql: text, params } = make().toSQL()
    const statement = { text, params }
    if (statements.size >= MOST_STATEMENTS) statements.delete(statements.keys().next().value ?? '')
    statements.set(key, statement)
    return statement
  }
}

export const run = async (connection: Connection, { text, params }: Statement, values: Values) =>
  (await connection.run(text, fillPlaceholders(params, { ...values }) as Param[])) as Row[]

/** Where a value of that name goes. */
export const value = (name: string) => sql.placeholder(name)
