/**
 * Locks rows for writes: as strongly as the write needs from the beginning, only rows that the caller may write, and, for
 * batches, in one order. packages/resources/README.md has the table of all locks.
 */
import type { Actor } from '@resource-api/api/actor'
import { apiError } from '@resource-api/api/errors'
import { formatRule, type Rule } from '@resource-api/api/rules'
import type { Connection } from '@resource-api/database'
import { isTransaction } from '@resource-api/database/client'
import { isLockTimeout } from '@resource-api/database/errors'
import type { RowId } from '@resource-api/database/key'
import { isUuid } from '@resource-api/database/values'
import { getTableName } from 'drizzle-orm'
import type { Locks } from '../definition/code.ts'
import type { Lock, Resource } from '../definition/resource.ts'
import type { Row } from '../definition/store.ts'

/** The lock that a write takes on the row of its address. */
export interface RowLock {
  id: RowId
  mode: Lock
  /** The rows that the caller may write. */
  rule: Rule
}

/** Returns the lock for a change of the named fields. */
export const chooseLock = (
  { keyColumns, immutable = [] }: Pick<Resource, 'keyColumns' | 'immutable'>,
  names: readonly string[],
): Lock =>
  names.some((name) => keyColumns.has(name) && !immutable.includes(name)) ? 'update' : 'no key update'

export const BUSY = 'Another request is changing the resource; try again when it has ended'

/** Returns 409 for a wait that was too long for a row that is the caller's, and other errors unchanged. */
function toBusyError(error: unknown, { id, rule }: Pick<RowLock, 'id' | 'rule'>, actor: Actor): unknown {
  const isOwn = rule !== true || id === actor.userId
  if (!isOwn || !isLockTimeout(error)) return error
  return apiError('RESOURCE_CONFLICT', { message: BUSY, retryAfter: 1, cause: error })
}

/**
 * Returns a row, locked until the transaction ends; undefined if it does not exist or the rule does not permit it.
 * @throws ApiError 409 if another transaction holds a row of the caller for too long
 */
export async function lockRow(
  { select, stores }: Resource,
  connection: Connection,
  lock: RowLock,
  actor: Actor,
): Promise<Row | undefined> {
  if (lock.mode !== 'key share') await stores.lockTable(connection)
  return select.locked(connection, lock.id, lock.mode, { rule: lock.rule, actor }).catch((error) => {
    throw toBusyError(error, lock, actor)
  })
}

/**
 * Begins the time for which an import may lock rows of other resources, for which other requests wait. Other transactions
 * are shorter, and have no such limit.
 * @param name of the collection
 */
export function limitLocks(connection: Connection, name: string): void {
  if (!isTransaction(connection)) return
  connection.limitLocks(() => {
    const message = `The import keeps rows of ${name} locked for too long, for which other requests wait; send fewer rows`
    return apiError('PAYLOAD_TOO_LARGE', { message })
  })
}

/** As `limitLocks`, for the rows that code locks by its own statements. */
export function limitCodeLocks(connection: Connection, { resources }: Resource, locks?: Locks): void {
  if (!locks || locks.isLast) return
  limitLocks(connection, resources.get(locks.table)?.name ?? getTableName(locks.table))
}

const depths = new WeakMap<Resource, number>()

/** Returns the resource whose rows the code of a resource locks, if it says so. */
const listLockTargets = ({ code, resources }: Resource): Resource[] =>
  [(code.locks && resources.get(code.locks.table)) ?? []].flat()

/** Returns the length of the longest chain of references, and of locks of code, that begins at a resource. */
function getDepth(resource: Resource, path: readonly Resource[] = []): number {
  const known = depths.get(resource)
  if (known !== undefined || path.includes(resource)) return known ?? 0
  const targets = [...resource.references.map(({ to }) => to), ...listLockTargets(resource)]
  const depth = Math.max(0, ...targets.map((to) => 1 + getDepth(to, [...path, resource])))
  if (path.length === 0) depths.set(resource, depth)
  return depth
}

/** What an operation of a batch writes. */
export interface BatchWrite {
  resource: Resource
  /** Undefined for a creation. */
  lock: RowLock | undefined
  /** Those of the body, for the resource's code. */
  fields?: Partial<Row> | undefined
}

/** Code may have read the id of a row from a body, which may have a UUID in capitals. */
export const toCanonical = (id: RowId): RowId =>
  typeof id === 'string' && isUuid(id) ? id.toLowerCase() : id

/** Returns the locks on the rows of a resource in the order of their ids: for each row, the strongest. */
function mergeLocks(writes: readonly BatchWrite[], resource: Resource): RowLock[] {
  const locks = new Map<RowId, RowLock>()
  for (const { lock, resource: written } of writes) {
    if (!lock || written !== resource) continue
    const id = toCanonical(lock.id)
    const { mode, rule } = locks.get(id) ?? lock
    locks.set(id, { id, rule, mode: lock.mode === 'update' ? lock.mode : mode })
  }
  return [...locks.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
}

type Group = [RowLock, ...RowLock[]]

/** Groups locks that follow each other and that one statement can take. */
function groupAlike(locks: readonly RowLock[]): Group[] {
  const groups: Group[] = []
  for (const lock of locks) {
    const group = groups.at(-1)
    const isAlike = group?.[0].mode === lock.mode && formatRule(group[0].rule) === formatRule(lock.rule)
    if (group && isAlike) group.push(lock)
    else groups.push([lock])
  }
  return groups
}

/** Returns the locks that the code of a resource takes on rows of another one. */
async function findCodeLocks(connection: Connection, writes: readonly BatchWrite[], resource: Resource) {
  const own = writes.filter((write) => write.resource === resource)
  const named = own.map(({ lock, fields }) => ({ id: lock?.id, fields }))
  const ids = (await resource.code.locks?.find(connection, named)) ?? []
  return listLockTargets(resource).flatMap((target) =>
    ids.map((id): BatchWrite => ({ resource: target, lock: { id, mode: 'no key update', rule: true } })),
  )
}

/**
 * Locks the rows that a batch changes, and those that its code says it locks, in an order that does not depend on that
 * of its operations, so that two batches do not wait for each other. Rows that refer to others come first, as in code
 * that changes what its row refers to. The operations check what they find; rows of which the writes lock the caller first
 * are left to them.
 */
export async function lockBatch(
  connection: Connection,
  writes: readonly BatchWrite[],
  actor: Actor,
): Promise<void> {
  const all = [...writes]
  const written = new Set(writes.map(({ resource }) => resource))
  // Otherwise, hooks that lock rows run once, at the end.
  const locksFirst = ({ code }: Resource) => written.size > 1 || !code.locks?.isLast
  const resources = [...new Set([...written].flatMap((each) => [each, ...listLockTargets(each)]))]
    .filter(({ bearerOnly }) => !bearerOnly)
    .sort((a, b) => getDepth(b) - getDepth(a) || (a.name < b.name ? -1 : 1))
  for (const resource of resources) {
    await resource.stores.lockTable(connection)
    for (const [first, ...others] of groupAlike(mergeLocks(all, resource))) {
      const ids = [first, ...others].map(({ id }) => id)
      await resource.select
        .lockAll(connection, ids, first.mode, { rule: first.rule, actor })
        .catch((error) => {
          throw toBusyError(error, first, actor)
        })
    }
    if (locksFirst(resource)) all.push(...(await findCodeLocks(connection, writes, resource)))
  }
}
