/** PUT and PATCH on a member: replace a resource, or change the fields that the body names (RFC 7396). */
import type { Connection } from '../../../drizzle/client/types.ts'
import { getRule, hasPaths } from '../../access/rules.ts'
import { apiError } from '../../errors/index.ts'
import { readPrecondition } from '../../http/preconditions.ts'
import { getOrigin } from '../../outbox/origin.ts'
import type { Change } from '../actions.ts'
import { createBodyReader } from '../request/body.ts'
import type { Written } from '../response/response-builder.ts'
import { buildRuleCondition } from '../sql/conditions.ts'
import { findConstrainedColumns } from '../sql/constraint-errors.ts'
import { listRuleColumns } from '../sql/rule-paths.ts'
import type { Row } from '../store.ts'
import { checkTransitions, createComputeChange, findSettableColumns } from './compute-change.ts'
import { createTools, findRow, isPermitted, type OperationContext, type PreparedColumns } from './context.ts'
import { openStore } from './open-store.ts'
import { checkReferences, findOpenReferences } from './references.ts'
import { chooseLock } from './row-locks.ts'
import type { Update, WriteOperation, WritePlan } from './write-plan.ts'

export function createChangeOperation(context: OperationContext, mode: 'replace' | 'update'): WriteOperation {
  const { app, bodyReferences, builder, options, resource } = context
  const { representation, requireIfMatch } = options
  const { access, actions = {}, bearerOnly = false, parent, stores } = resource
  const bodyReader = createBodyReader(resource, representation, mode)
  const computeChange = createComputeChange(resource, mode, bodyReader)
  const settable = findSettableColumns(resource)
  const constrained = findConstrainedColumns(resource)
  const { prepare } = actions

  const plan: WriteOperation['plan'] = (call): WritePlan<Row> => {
    const { address, request, reply, usedRights } = call
    const { actor, id, parent: parentId } = address

    // The body: an object (400), with ids as in the path, and valid fields (422).
    const ids = parent ? { id, [parent.member]: parentId } : { id }
    const locked = resource.locked?.(actor, id, app)
    // PUT may repeat them.
    const withheld = mode === 'update' ? locked : undefined
    const { fields, prefix } = bodyReader.read(call, { ids, withheld })
    const names = Object.keys(fields)

    const rule = getRule(access, mode, actor)
    const lock = { id, mode: chooseLock(resource, names), rule }
    const ruleColumns = hasPaths(rule) ? listRuleColumns(resource, rule) : []
    const checkPrecondition = readPrecondition(call.preconditions, requireIfMatch, (row: Row) =>
      builder.getTag(request, row),
    )
    // More than have changed, perhaps: the row is not known yet.
    const open = bodyReferences.length > 0 ? findOpenReferences(bodyReferences, fields, names, actor) : []

    /** Computes the change (422); checks the rule and the resource's own (403), preconditions (428, 412) and states (409). */
    const check = async (connection: Connection, current: Row): Promise<Change<Row>> => {
      const change = computeChange(current, fields, actor, locked)
      // Such as a move to another organization. `find` has checked the row as it was.
      const isMoved = ruleColumns.some((name) => change.changed.has(name))
      if (isMoved && !(await isPermitted(resource, connection, change.next, { rule, actor }))) {
        throw apiError('FORBIDDEN', { message: 'Access to the resource as it would become is not allowed' })
      }
      if (isMoved) usedRights?.addRow(rule, change.next)
      await actions.guard?.(current, change, actor, connection)
      checkPrecondition?.(current)
      checkTransitions(resource, current, change.next)
      return change
    }

    /** Checks the row that was found, and references (422). */
    const buildChange = async (connection: Connection, current: Row, prepared?: PreparedColumns) => {
      const change = await check(connection, current)
      if (prepared?.stillApplies && !prepared.stillApplies(current, change)) {
        const message = 'Another request changed the resource in the meantime; try again'
        throw apiError('RESOURCE_CONFLICT', { message })
      }
      if (open.length > 0) {
        const changed = findOpenReferences(bodyReferences, change.next, change.changed, actor)
        await checkReferences(connection, changed, actor)
        usedRights?.addReferences(changed)
      }
      const next = prepared ? { ...change.next, ...prepared.columns } : change.next
      return { next, changed: change.changed }
    }

    const toWritten = (row: Row, isUnchanged = false): Written => ({
      status: 200,
      row,
      path: null,
      isUnchanged,
    })
    // A guard may read other rows.
    const isOnlyUpdate =
      !actions.change && !actions.guard && !resource.hasExclusion && !bearerOnly && open.length === 0
    const buildNext: Update['buildNext'] = async (connection, current, prepared) =>
      (await buildChange(connection, current, prepared)).next

    // A single UPDATE, if SQL alone can check access and which values differ. It changes no row that does not exist, is not
    // the caller's, is locked, or has these values: the transaction finds out which.
    const isSettable = (name: string) => settable.has(name) && !ruleColumns.includes(name)
    const isAnyRow = mode === 'update' && !checkPrecondition && !bearerOnly && rule !== false
    const update = async (connection: Connection) => {
      const buildAllowed = () => buildRuleCondition(resource, rule)
      const origin = getOrigin(actor, request.id)
      const target = { id, parent: parentId, buildAllowed, actor, origin }
      const row = await stores.updateUnread(connection, target, fields)
      return row && toWritten(row)
    }

    return {
      prefix,
      fields,
      update: isOnlyUpdate ? { buildNext } : undefined,
      statement:
        isAnyRow && names.length > 0 && names.every(isSettable)
          ? { canWait: names.some((name) => constrained.has(name)), run: update }
          : undefined,
      lock,

      find: (connection, isLocking) =>
        findRow(context, connection, address, rule, isLocking ? lock.mode : undefined),

      slow: prepare && {
        check: (current, connection) => check(connection, current),
        async run(current, connection) {
          const seen = { current, change: await check(connection, current) }
          return prepare(fields, actor, createTools(app, request, reply, actor), seen)
        },
      },

      /** Writes the columns that differ: `UPDATE ... RETURNING`. */
      async write(connection, current, prepared) {
        const change = await buildChange(connection, current, prepared)
        const store = openStore(resource, connection, actor, request)
        const row = await (actions.change
          ? actions.change(store, current, change, actor)
          : store.update(current, change.next))
        return toWritten(row, row.revision === current.revision)
      },
    }
  }

  // PUT needs no key: sent twice, it has the same effect.
  return mode === 'update' ? { getKeyPath: ({ path, id }) => `${path}/${id}`, plan } : { plan }
}
