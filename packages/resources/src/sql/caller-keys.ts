/** Reads the keys of the rows about a caller that rules compare, such as the organizations of which the caller is a member. */
import type { Actor } from '@resource-api/api/actor'
import { CALLER, formatRule, isPath, type Rule } from '@resource-api/api/rules'
import type { Connection } from '@resource-api/database'
import { StatementsByShape } from '@resource-api/database/client'
import { type SQL, sql } from 'drizzle-orm'
import { getCallerParameter } from './conditions.ts'
import { buildCallerKeys, type RuleSource } from './rule-paths.ts'

/** A rule, and the resource whose rows it is about. */
export interface SourceRule {
  source: RuleSource & { name: string }
  rule: Rule
}

/** The keys, in one text. An array of ten thousand strings takes twice the memory. */
export type CallerKeys = string

const SEPARATOR = ' '

/** Returns whether a caller has lost a key since an earlier reading. Further keys do not matter. */
export function hasLostKeys(before: CallerKeys, now: CallerKeys): boolean {
  if (before === now) return false
  const present = new Set(now.split(SEPARATOR))
  return !before.split(SEPARATOR).every((key) => present.has(key))
}

const hasCallerPath = ({ rule }: SourceRule): boolean =>
  typeof rule !== 'boolean' &&
  rule.some((condition) =>
    Object.entries(condition).some(([name, wanted]) => isPath(name) && wanted === CALLER),
  )

const buildKeys = ({ source, rule }: SourceRule): SQL[] =>
  typeof rule === 'boolean'
    ? []
    : rule.flatMap((condition) => buildCallerKeys(source, condition, { getCaller: getCallerParameter }))

/** Creates the function that reads the keys of rules, with one statement; undefined if no related row is about the caller. */
export function createCallerKeysReader() {
  const statements = new StatementsByShape()

  return async (
    connection: Connection,
    rules: readonly SourceRule[],
    actor: Actor,
  ): Promise<CallerKeys | undefined> => {
    const open = rules.filter(hasCallerPath)
    if (open.length === 0) return undefined
    const shape = open.map(({ source, rule }) => `${source.name}: ${formatRule(rule)}`).join('; ')
    const statement = statements.get<{ keys: string }>(shape, (db) => {
      // Each query has a number of its own: two rules may mean different rows with the same key.
      const parts = open
        .flatMap((each) => buildKeys(each))
        .map((keys, i) => sql`select ${sql.raw(`'${i}:'`)} || key as key from (${keys}) as own`)
      return db.execute(
        sql`select coalesce(string_agg(key, ${sql.raw(`'${SEPARATOR}'`)} order by key), '') as keys from (${sql.join(parts, sql` union all `)}) as keys`,
      )
    })
    const [row] = await statement(connection, { caller: actor.userId })
    return row?.keys ?? ''
  }
}
