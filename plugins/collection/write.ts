/** Writes: the row found and locked, its access, its preconditions, then the card's action; all in one transaction. */
import { type Actor, allows, type Rule, ruleFor, type Verb } from '../access.ts'
import type { Precondition } from '../conditional.ts'
import type { Connection, Database } from '../database/types.ts'
import { apiError, invalidBody, withPrefix } from '../errors.ts'
import { isObject } from '../representation/body.ts'
import { type BodyReader, fill, mergePatch } from './bodies.ts'
import type { AnyCard, Row } from './define.ts'
import { selectOf } from './present.ts'
import { createStores, same } from './store.ts'

/** What a write is told of its request. */
export interface Write {
  id: string
  actor: Actor
  /** The parent's id from the path. */
  parent: string | undefined
  precondition: Precondition
  /** The tag of a row as this request would be answered. */
  tagOf: (row: Row) => string
}

export function createWrites(card: AnyCard, database: Database, refusal: () => Error) {
  const store = createStores(card)
  const select = selectOf(card)
  const everything = Object.keys(select.columns).filter((name) => name !== 'search')

  /** The row of a write, locked until the transaction ends. */
  const find = async (tx: Connection, write: Write, verb: Verb): Promise<Row> => {
    const row = await select.one(tx, write.id, { also: everything, lock: true })
    if (!row || (card.parent && row[card.parent.member] !== write.parent))
      throw apiError('RESOURCE_NOT_FOUND')
    refuse(ruleFor(card.access, verb, write.actor), row, write.actor)
    write.precondition.check({ revision: row.revision, updated_at: String(row.updated_at) }, write.tagOf(row))
    return row
  }

  const refuse = (rule: Rule, row: Readonly<Record<string, unknown>>, actor: Actor) => {
    if (!allows(rule, row, actor)) throw refusal()
  }

  /** Moves between states that the card does not name. */
  const checkTransitions = (current: Row, next: Readonly<Record<string, unknown>>) => {
    for (const [member, moves] of Object.entries(card.transitions ?? {})) {
      const [from, to] = [String(current[member]), String(next[member])]
      const legal = moves[from] ?? []
      if (from === to || next[member] === undefined || legal.includes(to)) continue
      const message = `cannot go from ${from} to ${to}; from ${from} it can go to ${legal.join(', ') || 'no other'}`
      throw apiError('RESOURCE_CONFLICT', {
        message: `The ${member} ${message}`,
        violations: [{ field: member, message, code: 'INVALID_TRANSITION' }],
      })
    }
  }

  /** An error that names members, told with the path that the client sent them under. */
  const prefixed = async <T>(prefix: string, work: () => Promise<T>): Promise<T> => {
    try {
      return await work()
    } catch (error) {
      throw withPrefix(error, prefix)
    }
  }

  const prepare = async (body: Record<string, unknown>) => card.actions?.prepare?.(body)

  const change = async (
    write: Write,
    verb: 'replace' | 'update',
    reader: BodyReader,
    body: Record<string, unknown>,
    prefix: string,
  ) => {
    const prepared = await prepare(body)
    return database.transaction((tx) =>
      prefixed(prefix, async () => {
        const current = await find(tx, write, verb)
        const merged: Record<string, unknown> = {}
        for (const [name, value] of Object.entries(body)) {
          const patch = verb === 'update' && isObject(value) ? mergePatch(current[name], value) : value
          const schema = card.schemas.change.properties[name]
          merged[name] = isObject(patch) && schema ? fill(schema, patch, new Set()) : patch
          if (patch !== value) reader.checkMerged({ [name]: merged[name] })
        }
        const foreign = (card.immutable ?? []).filter(
          (name) => name in merged && merged[name] !== current[name],
        )
        if (foreign.length > 0) {
          throw invalidBody(
            foreign.map((field) => ({ field, message: 'cannot be changed', code: 'READ_ONLY' as const })),
          )
        }
        checkTransitions(current, merged)
        const next = { ...current, ...merged, ...prepared }
        const changed = new Set(Object.keys(merged).filter((name) => !same(merged[name], current[name])))
        const action = card.actions?.change
        return action
          ? action(store(tx), current, { next, changed }, write.actor)
          : store(tx).update(current, next)
      }),
    )
  }

  return {
    async create(write: Write, body: Record<string, unknown>, prefix: string): Promise<Row> {
      const prepared = await prepare(body)
      return database.transaction((tx) =>
        prefixed(prefix, async () => {
          const parent = card.parent ? { [card.parent.member]: write.parent } : {}
          const values = { ...card.defaults?.(write.actor), ...body, ...prepared, ...parent }
          refuse(ruleFor(card.access, 'create', write.actor), values, write.actor)
          const action = card.actions?.create
          return action
            ? action(store(tx), write.id, values, write.actor)
            : store(tx).insert({ ...values, id: write.id })
        }),
      )
    },

    replace: (
      write: Write,
      reader: BodyReader,
      body: Record<string, unknown>,
      prefix: string,
    ): Promise<Row> => change(write, 'replace', reader, body, prefix),

    update: (write: Write, reader: BodyReader, body: Record<string, unknown>, prefix: string): Promise<Row> =>
      change(write, 'update', reader, body, prefix),

    remove: (write: Write): Promise<void> =>
      database.transaction(async (tx) => {
        const current = await find(tx, write, 'remove')
        const action = card.actions?.remove
        await (action ? action(store(tx), current, write.actor) : store(tx).remove(current))
      }),
  }
}
