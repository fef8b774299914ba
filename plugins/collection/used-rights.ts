/** Remembers which permissions of a long transaction depend on other rows, and checks before its end that they still hold. */
import type { Values } from '../../drizzle/client/prepare.ts'
import type { Connection } from '../../drizzle/client/types.ts'
import type { Actor } from '../access/actor.ts'
import { formatRule, hasPaths, narrowByRow, type Rule } from '../access/rules.ts'
import { apiError } from '../errors/index.ts'
import type { Resource } from './resource.ts'
import { listRuleColumns } from './sql/rule-paths.ts'

/** A reference that only the row can permit. */
export interface OpenReference {
  field: string
  to: Resource
  /** The column of the other row, and its value. */
  foreign: string
  value: unknown
  rule: Rule
  /** Whether the caller can read no row with this value. */
  isRefused: boolean
}

/** Rows of a statement. */
const MAX_ROWS = 500

const pick = (row: Values, names: readonly string[]): Values =>
  Object.fromEntries(names.map((name) => [name, row[name]]))

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
    if (!hasPaths(rule)) return
    const open = narrowByRow(rule, row, this.#actor)
    // No other row has decided.
    if (typeof open === 'boolean') return
    const name = formatRule(open)
    const group = this.#rows.get(name) ?? { rule: open, rows: new Map() }
    this.#rows.set(name, group)
    const values = pick(row, listRuleColumns(this.#resource, open))
    group.rows.set(JSON.stringify(values), values)
  }

  /** Adds references to rows that the caller was permitted to read. */
  addReferences(references: readonly OpenReference[]): void {
    for (const each of references) this.#references.set(JSON.stringify([each.field, each.value]), each)
  }

  /** @throws ApiError 403 if a permission does not hold any more */
  async check(tx: Connection): Promise<void> {
    for (const { rule, rows } of this.#rows.values()) {
      const all = [...rows.values()]
      for (let start = 0; start < all.length; start += MAX_ROWS) {
        const part = all.slice(start, start + MAX_ROWS)
        const permitted = await this.#resource.select.findPermitted(tx, rule, part, [this.#actor.userId])
        if (permitted.length < part.length) throw this.#createRefusal()
      }
    }
    for (const { to, foreign, value, rule } of this.#references.values()) {
      const scope = { rule, actor: this.#actor }
      if (!(await to.select.isReadable(tx, foreign, value, scope))) throw this.#createRefusal()
    }
  }

  #createRefusal(): Error {
    const message = `The caller has lost access to rows of ${this.#resource.plural} or to rows that these refer to`
    return apiError('FORBIDDEN', { message })
  }
}
