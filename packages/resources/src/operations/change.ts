/** PUT and PATCH on a member: replace resources, or change the fields that the bodies name (RFC 7396). */
import { apiError } from '@resource-api/api/errors'
import { getRule, hasPaths, type Rule } from '@resource-api/api/rules'
import type { Connection } from '@resource-api/database'
import type { Values } from '@resource-api/database/client'
import { mapInTurns, SHORT_TURN_MS } from '@resource-api/database/concurrency'
import type { Change, ChangeCode } from '../definition/code.ts'
import type { Row } from '../definition/store.ts'
import { getCallOrigin } from '../outbox/origin.ts'
import { createBodyReader } from '../request/body.ts'
import type { Written } from '../response/response-builder.ts'
import { buildRuleCondition } from '../sql/conditions.ts'
import { listRuleColumns } from '../sql/rule-paths.ts'
import { createPickChanged } from '../sql/same-values.ts'
import { checkTransitions, createComputeChange, findSettableColumns } from './compute-change.ts'
import { createTools, findRow, isPermitted, type OperationContext, readRowPrecondition } from './context.ts'
import { openStore } from './open-store.ts'
import { checkReferences, createRowRefusal, findOpenReferences } from './references.ts'
import { chooseLock, limitCodeLocks, type RowLock } from './row-locks.ts'
import type { RowWrite, WriteInput, WriteOperation } from './write-operation.ts'

interface ChangeInput extends WriteInput {
  fields: Partial<Row>
  lock: RowLock
  /** The columns on which the access rule depends by relations. */
  ruleColumns: readonly string[]
  /** The fields that this caller cannot change. */
  locked: readonly string[] | undefined
  /** Undefined without a condition. */
  checkPrecondition: ((current: Row) => void) | undefined
}

const toWritten = (row: Row, isUnchanged = false): Written => ({ status: 200, row, isUnchanged })

export function createChangeOperation(
  context: OperationContext,
  mode: 'replace' | 'update',
  code: ChangeCode<Row, Row>,
): WriteOperation<ChangeInput, Row> {
  const { app, bodyReferences, resource } = context
  const { access, bearerOnly = false, parent, stores } = resource
  const bodyReader = createBodyReader(resource, mode, app.resourceWriter.mappings[resource.name]?.lacking)
  const computeChange = createComputeChange(resource, mode, bodyReader)
  const settable = findSettableColumns(resource, code)
  const pickChanged = createPickChanged(resource.columns)
  const { guard, locks, prepare, run } = code

  /** Computes the change (422); checks the rule (403, or 422 for references) and the resource's own (403), preconditions (428, 412) and states (409). */
  const check = async (
    connection: Connection,
    { call, checkPrecondition, fields, lock: { rule }, locked, ruleColumns }: ChangeInput,
    current: Row,
  ): Promise<{ change: Change<Row>; values: Values }> => {
    const { actor } = call.address
    const { change, values } = computeChange(current, fields, actor, locked)
    // Such as a move to another organization. `find` has checked the row as it was.
    if (ruleColumns.some((name) => change.changed.has(name))) {
      if (!(await isPermitted(resource, connection, change.next, { rule, actor }))) {
        const message = 'Access to the resource as it would become is not allowed'
        const refused = { row: change.next, names: change.changed, rule, actor }
        throw await createRowRefusal(context, connection, refused, message)
      }
      call.usedRights?.addRow(rule, change.next)
    }
    await guard?.({ ...change, current, actor, connection })
    checkPrecondition?.(current)
    checkTransitions(resource, current, change.next)
    return { change, values }
  }

  /** Checks a row that was found and locked (403, 428, 412, 409), and its references (422). */
  const checkLocked = async (
    connection: Connection,
    { input, found: current, prepared }: RowWrite<ChangeInput, Row>,
  ) => {
    const { actor } = input.call.address
    const { change, values } = await check(connection, input, current)
    if (prepared?.stillApplies && !prepared.stillApplies(current, change)) {
      const message = 'Another request changed the resource in the meantime; try again'
      throw apiError('RESOURCE_CONFLICT', { message })
    }
    const open = findOpenReferences(bodyReferences, change.next, change.changed, actor)
    if (open.length > 0) await checkReferences(connection, open, actor)
    input.call.usedRights?.addReferences(open)
    if (!prepared) return { current, change, values }
    const next = { ...change.next, ...prepared.columns }
    const preparedValues = pickChanged(current, prepared.columns)
    return { current, change: { ...change, next }, values: { ...values, ...preparedValues } }
  }

  return {
    // PUT needs no key: sent twice, it has the same effect.
    isIdempotent: mode === 'update',
    // Guards and references may depend on rows that were changed before.
    isJoined: ({ call, fields }) =>
      !run &&
      !guard &&
      !resource.hasExclusion &&
      findOpenReferences(bodyReferences, fields, Object.keys(fields), call.address.actor).length === 0,

    /** The body: an object (400), with ids as in the path, and valid fields (422). */
    read(call) {
      const { actor, id, parent: parentId } = call.address
      const ids = parent ? { id, [parent.member]: parentId } : { id }
      const locked = resource.locked?.(actor, id, app)
      // PUT may repeat them.
      const withheld = mode === 'update' ? locked : undefined
      const { fields, prefix } = bodyReader.read(call, { ids, withheld })
      const rule: Rule = getRule(access, mode, actor)
      return {
        call,
        fields,
        prefix,
        locked,
        lock: { id, mode: chooseLock(resource, Object.keys(fields)), rule },
        ruleColumns: hasPaths(rule) ? listRuleColumns(resource, rule) : [],
        checkPrecondition: readRowPrecondition(context, call),
      }
    },

    getLock: ({ lock }) => lock,

    find: (connection, { call, lock }, isLocking) =>
      findRow(context, connection, call.address, lock.rule, isLocking ? lock.mode : undefined),

    ...(prepare && {
      async prepare(connection, input, current) {
        const { address, request, reply } = input.call
        const { change } = await check(connection, input, current)
        const tools = createTools(app, request, reply, address.actor)
        return prepare({ ...change, current, body: input.fields, actor: address.actor, tools })
      },
    }),

    /** Checks the rows, and writes the columns that differ: `UPDATE ... RETURNING`, which records the events too. */
    async write(connection, writes) {
      const [first] = writes
      if (!first) return []
      const { call } = first.input
      const { actor } = call.address
      if (run) limitCodeLocks(connection, resource, locks)
      const changes = await mapInTurns(writes, (write) => checkLocked(connection, write), SHORT_TURN_MS)
      const rows = run
        ? await mapInTurns(changes, ({ current, change }) =>
            run({ ...change, store: openStore(resource, connection, call), current, actor }),
          )
        : await stores.changeRows(connection, getCallOrigin(call), changes)
      return rows.map((row, i) => toWritten(row, row.revision === changes[i]?.current.revision))
    },

    /**
     * A single UPDATE, if SQL alone can check access and which values differ. It waits for no other transaction: it changes
     * no row that does not exist, is not the caller's, is locked, or has these values. The transaction finds out which.
     */
    async writeAtOnce(database, { call, checkPrecondition, fields, lock: { rule }, ruleColumns }) {
      const names = Object.keys(fields)
      const isSettable = (name: string) => settable.has(name) && !ruleColumns.includes(name)
      const isAnyRow = mode === 'update' && !checkPrecondition && !bearerOnly && rule !== false
      if (!isAnyRow || names.length === 0 || !names.every(isSettable)) return undefined
      const { actor, id, parent: parentId } = call.address
      const buildAllowed = () => buildRuleCondition(resource, rule)
      const origin = getCallOrigin(call)
      const target = { id, parent: parentId, buildAllowed, actor, origin }
      const row = await stores.changeAtOnce(database, target, fields)
      return row && toWritten(row)
    },
  }
}
