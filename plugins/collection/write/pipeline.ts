/** Writes: the row found and locked, its access, its preconditions, then the card's action; all in one transaction. */

import type { Connection, Database } from '../../../drizzle/client/types.ts'
import { type Actor, allows, getRule, type Rule, type Verb } from '../../access/index.ts'
import { apiError, invalidBody, withPrefix } from '../../errors/index.ts'
import type { StoredResponse } from '../../idempotency/record.ts'
import { isObject } from '../../versioning/representation/body.ts'
import type { AnyCard, Change, Prepared, Row, Tools } from '../definition.ts'
import { selectOf } from '../read/include.ts'
import { type BodyReader, fill, mergePatch } from '../request/body.ts'
import type { Precondition } from '../request/preconditions.ts'
import type { Lock } from '../sql/select.ts'
import { createStores, same } from '../sql/write.ts'
import { createOnce, type Telling } from './run.ts'
import { createDirect } from './single-statement.ts'

/** What a write is told of its request. */
export interface Write {
  id: string
  actor: Actor
  /** The parent's id from the path. */
  parent: string | undefined
  precondition: Precondition
  /** Few writes need them. */
  tools: () => Tools
  /** The tag of a row as this request would be answered. */
  tagOf: (row: Row) => string
}

/** What was sent, and how it is to be read. */
interface Sent {
  reader: BodyReader
  members: Record<string, unknown>
  /** Where the members stood in the body. */
  prefix: string
}

export function createWrites(card: AnyCard, database: Database, refusal: () => Error) {
  const stores = createStores(card)
  const { store } = stores
  const direct = createDirect(card, stores)
  const select = selectOf(card)
  const everything = Object.keys(select.columns).filter((name) => name !== 'search')

  const look = (connection: Connection, id: string, lock?: Lock) =>
    select.one(connection, id, { also: everything, lock })

  const once = createOnce(database, new Set(Object.keys(select.columns)))

  /** The row that was addressed, if it is there (404) and the caller may touch it (403). */
  const admit = (row: Row | undefined, write: Write, verb: Verb): Row => {
    if (!row || (card.parent && row[card.parent.member] !== write.parent)) {
      throw apiError('RESOURCE_NOT_FOUND')
    }
    if (!allows(getRule(card.access, verb, write.actor), row, write.actor)) throw refusal()
    return row
  }

  const checkPrecondition = (row: Row, { precondition, tagOf }: Write) =>
    precondition.check({ revision: row.revision, updated_at: String(row.updated_at) }, tagOf(row))

  /** A new row that the caller may not make: whose parent is unknown is 404 first. */
  const admitNew = async (rule: Rule, values: Row, { actor, parent }: Write) => {
    if (allows(rule, values, actor)) return
    if (!card.parent || parent === undefined) throw apiError('FORBIDDEN')
    const found = await selectOf(card.parent.to()).one(database, parent, { fields: ['id'] })
    throw found ? refusal() : apiError('RESOURCE_NOT_FOUND')
  }

  /** Moves between states that the card does not name. */
  const checkTransitions = (current: Row, next: Readonly<Record<string, unknown>>) => {
    for (const [member, moves] of Object.entries(card.transitions ?? {})) {
      const [from, to] = [String(current[member]), String(next[member])]
      const legal = moves[from] ?? []
      if (from === to || legal.includes(to)) continue
      const message = `cannot go from ${from} to ${to}; from ${from} it can go to ${legal.join(', ') || 'no other'}`
      throw apiError('RESOURCE_CONFLICT', {
        message: `The ${member} ${message}`,
        violations: [{ field: member, message, code: 'INVALID_TRANSITION' }],
      })
    }
  }

  /** The members sent as they would stand in the row: what is merged must hold as if it had been sent whole. */
  const mergeInto = (current: Row, { reader, members }: Sent, verb: 'replace' | 'update') => {
    if (verb === 'replace') return members
    const patched = Object.entries(members)
      .filter(([, value]) => isObject(value))
      .map(([name, value]): [string, unknown] => {
        const schema = card.schemas.change.properties[name]
        const merged = mergePatch(current[name], value)
        return [name, schema && isObject(merged) ? fill(schema, merged, new Set()) : merged]
      })
    const merged = Object.fromEntries(patched)
    reader.checkMerged(merged)
    return { ...members, ...merged }
  }

  const checkImmutable = (current: Row, next: Readonly<Record<string, unknown>>) => {
    const foreign = (card.immutable ?? []).filter((name) => next[name] !== current[name])
    if (foreign.length === 0) return
    throw invalidBody(
      foreign.map((field) => ({ field, message: 'cannot be changed', code: 'READ_ONLY' as const })),
    )
  }

  /** What a change comes to on the row as it is; what stands against it is thrown in the contract's order. */
  const settle = (current: Row, write: Write, verb: 'replace' | 'update', sent: Sent) => {
    const merged = mergeInto(current, sent, verb)
    const before = sent.reader.writable(current)
    const changes = Object.entries(merged).filter(([name, value]) => !same(value, before[name]))
    const next: Row = { ...current, ...Object.fromEntries(changes) }
    const change: Change<Row> = { next, changed: new Set(changes.map(([name]) => name)) }
    checkImmutable(current, next)
    card.actions?.guard?.(current, change, write.actor)
    checkPrecondition(current, write)
    checkTransitions(current, next)
    return { current, change }
  }

  /** An error that names members, told with the path that the client sent them under. */
  const prefixed = <T>(prefix: string, work: () => Promise<T>): Promise<T> =>
    prefix === ''
      ? work()
      : work().catch((error) => {
          throw withPrefix(error, prefix)
        })

  const change = (verb: 'replace' | 'update') => {
    const { prepare, change: action } = card.actions ?? {}
    const stepsOf = (write: Write, sent: Sent) => ({
      isSingle: !action,
      isUnchanged: (before: Row, row: Row) => row.revision === before.revision,
      admit: async (connection: Connection, lock: boolean) =>
        admit(await look(connection, write.id, lock ? 'no key update' : undefined), write, verb),

      prepare:
        prepare &&
        ((seen: Row) => prepare(sent.members, write.actor, write.tools(), settle(seen, write, verb, sent))),

      act: async (tx: Connection, row: Row, prepared: Prepared<Row, Row> | undefined) => {
        const { current, change } = settle(row, write, verb, sent)
        if (prepared?.holds && !prepared.holds(current, change)) {
          throw apiError('RESOURCE_CONFLICT', { message: 'The resource has just changed; try again' })
        }
        const next = { ...change.next, ...prepared?.columns }
        return action
          ? action(store(tx), current, { ...change, next }, write.actor)
          : store(tx).update(current, next)
      },
    })
    return (write: Write, telling: Telling, sent: Sent): Promise<StoredResponse> =>
      prefixed(sent.prefix, async () => {
        // Asked of nothing but the row's values, most changes need no look at it; where one is needed after all, it tells why.
        const isPlain = verb === 'update' && !telling.attempt && write.precondition.isNone
        const row = isPlain && (await direct(database, write, sent.members))
        return row ? telling.tell(row) : once(telling, stepsOf(write, sent))
      })
  }

  return {
    create: (
      write: Write,
      telling: Telling,
      { members, prefix }: Omit<Sent, 'reader'>,
    ): Promise<StoredResponse> =>
      prefixed(prefix, async () => {
        const values: Row = { ...card.defaults?.(write.actor), ...members, id: write.id, revision: 1 }
        if (card.parent) values[card.parent.member] = write.parent
        const rule = getRule(card.access, 'create', write.actor)
        if (rule !== true) await admitNew(rule, values, write)
        const { prepare, create: action } = card.actions ?? {}
        return once(telling, {
          isSingle: !action,
          isUnchanged: () => false,
          admit: async () => undefined,
          prepare: prepare && (() => prepare(members, write.actor, write.tools())),
          act: async (tx, _admitted, prepared) => {
            const complete = prepared ? { ...values, ...prepared.columns } : values
            return action ? action(store(tx), write.id, complete, write.actor) : store(tx).insert(complete)
          },
        })
      }),

    replace: change('replace'),

    update: change('update'),

    remove: (write: Write): Promise<void> =>
      database.transaction(async (tx) => {
        const current = admit(await look(tx, write.id, 'update'), write, 'remove')
        checkPrecondition(current, write)
        const action = card.actions?.remove
        await (action ? action(store(tx), current, write.actor) : store(tx).remove(current))
      }),
  }
}
