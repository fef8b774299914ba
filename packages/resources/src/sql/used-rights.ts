/** Remembers which permissions of a long transaction depend on other rows, and checks before its end that they still hold. */
import type { Actor } from '@resource-api/api/actor'
import { apiError } from '@resource-api/api/errors'
import { formatRule, narrowByRow, type Rule } from '@resource-api/api/rules'
import type { Connection } from '@resource-api/database'
import type { Values } from '@resource-api/database/client'
import type { Resource } from '../definition/resource.ts'
import { listRuleColumns } from './rule-paths.ts'

/** A reference of a row that is written. */
export interface OpenReference {
  field: string
  to: Resource
  /** The column of the other row, and its value. */
  foreign: string
  value: unknown
  rule: Rule
  /** The part of the rule that the value alone does not decide. */
  remaining: Rule
}

/** Rows of a statement. */
const MAX_ROWS = 500

export class UsedRights {
  readonly #resource: Resource
  readonly #actor: Actor
  /** The columns on which a rule depends, once for rows with the same values, by the rule. */
  readonly #rows = new Map<string, { rule: Rule; rows: Map<string, Values> }>()
  readonly #references = new Map<string, OpenReference>()

  constructor(resource: Resource, actor: Actor) {
    this.#resource = resource
    this.#actor = actor
  }

  /** Adds a row that a rule has permitted. */
  addRow(rule: Rule, row: Values): void {
    const open = narrowByRow(rule, row, this.#actor)
    // No other row has decided.
    if (typeof open === 'boolean') return
    const values = Object.fromEntries(listRuleColumns(this.#resource, open).map((name) => [name, row[name]]))
    const { rows } = this.#rows.get(formatRule(open)) ?? { rows: new Map<string, Values>() }
    this.#rows.set(formatRule(open), { rule: open, rows: rows.set(JSON.stringify(values), values) })
  }

  /** Adds references to rows that the caller was permitted to read. */
  addReferences(references: readonly OpenReference[]): void {
    for (const each of references) this.#references.set(JSON.stringify([each.field, each.value]), each)
  }

  /** @throws ApiError 403 if a permission does not hold any more */
  async check(tx: Connection): Promise<void> {
    const { plural, select } = this.#resource
    const message = `The caller has lost access to rows of ${plural} or to rows that these refer to`
    for (const { rule, rows } of this.#rows.values()) {
      const all = [...rows.values()]
      for (let start = 0; start < all.length; start += MAX_ROWS) {
        const part = all.slice(start, start + MAX_ROWS)
        const permitted = await select.findPermitted(tx, rule, part, [this.#actor.userId])
        if (permitted.length < part.length) throw apiError('FORBIDDEN', { message })
      }
    }
    for (const { to, foreign, value, rule } of this.#references.values()) {
      const isReadable = await to.select.isReadable(tx, foreign, value, { rule, actor: this.#actor })
      if (!isReadable) throw apiError('FORBIDDEN', { message })
    }
  }
}
