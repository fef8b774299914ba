/** A single UPDATE of a row that was not read before: the statement itself checks access and which values differ. */
import { and, eq, or, type SQL, sql } from 'drizzle-orm'
import type { Values } from '../../../drizzle/client/prepare.ts'
import type { Connection } from '../../../drizzle/client/types.ts'
import type { Actor, Rule } from '../../access/index.ts'
import type { ChangeOrigin } from '../../outbox/origin.ts'
import { buildRuleCondition, getColumn } from './conditions.ts'
import type { RowStatements, StoredResource } from './row-statements.ts'

/** The row to update without reading it, and the caller. */
export interface UnreadTarget {
  id: string
  parent: string | undefined
  rule: Rule
  actor: Actor
  origin: ChangeOrigin
}

/** Columns to set have placeholders of their own names, so those of the row have other ones. */
const TARGET = { id: sql.placeholder('target_id'), parent: sql.placeholder('target_parent') }

const toFormer = (name: string) => `former_${name}`

/** Returns the former values that differ, as JSON. */
function buildPrevious(names: readonly string[]): SQL {
  const parts = names.map((name) => ({
    key: sql.raw(`'${name}'`),
    value: sql.identifier(name),
    former: sql.identifier(toFormer(name)),
  }))
  const [first] = parts
  if (!first) return sql`'{}'::json`
  if (parts.length === 1) return sql`json_build_object(${first.key}, ${first.former})`
  const objects = parts.map(
    ({ key, value, former }) =>
      sql`case when ${value} is distinct from ${former} then jsonb_build_object(${key}, ${former}) else '{}'::jsonb end`,
  )
  return sql`(${sql.join(objects, sql` || `)})::json`
}

/**
 * Creates a function that updates a row without reading it. It resolves to undefined if the row does not exist under that
 * parent, if the rule does not allow it, if it has these values already, or if another transaction has locked it.
 */
export function createUnreadUpdate({ table, parent }: StoredResource, statements: RowStatements) {
  const { columns, buildUpdate, getNames, getOptions, getShownNames, run } = statements

  return (
    connection: Connection,
    { id, parent: parentId, rule, actor, origin }: UnreadTarget,
    values: Values,
  ) => {
    const names = getNames(values)
    const build = (db: Connection) => {
      const selected = Object.fromEntries(names.map((name) => [name, getColumn(columns, name)]))
      // `old` has the former values, which PostgreSQL itself returns only from version 18 on. A row that is locked is
      // skipped: after the other transaction, the revisions would differ, no row be updated, and the write read the row.
      const old = db
        .select({ ...selected, id: table.id, revision: table.revision })
        .from(table)
        .where(
          and(
            eq(table.id, TARGET.id),
            parent && eq(getColumn(columns, parent.member), TARGET.parent),
            buildRuleCondition(columns, rule),
            or(
              ...names.map(
                (name) => sql`${getColumn(columns, name)} is distinct from ${sql.placeholder(name)}`,
              ),
            ),
          ),
        )
        .for('no key update', { skipLocked: true })
        .as('old')
      const shown = getShownNames(names)
      return {
        change: buildUpdate(db, names)
          .from(old)
          .where(and(eq(table.id, old.id), eq(table.revision, old.revision))),
        former: Object.fromEntries(
          shown.map((name) => [toFormer(name), sql`${sql.identifier('old')}.${sql.identifier(name)}`]),
        ),
        previous: buildPrevious(shown),
      }
    }
    return run(connection, origin, {
      kind: 'updated',
      shape: `unread|${actor.role}|${names}`,
      values: { ...values, target_id: id, target_parent: parentId, caller: actor.userId },
      build,
      options: getOptions(names),
    })
  }
}
