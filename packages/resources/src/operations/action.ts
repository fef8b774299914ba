/** POST on an action of a resource: `POST /orders/{id}/refunds`. */
import type { Shape } from '@resource-api/api/results'
import type { Fields } from '@resource-api/api/validation'
import { type TObject, Type } from '@sinclair/typebox'
import type { ActionOptions, RunAction } from '../definition/code.ts'
import type { Row } from '../definition/store.ts'
import { createDefaults } from '../request/body.ts'
import type { Written } from '../response/response-builder.ts'
import { findRow, type OperationContext, readRowPrecondition } from './context.ts'
import { openStore } from './open-store.ts'
import type { RowLock } from './row-locks.ts'
import type { WriteInput, WriteOperation } from './write-operation.ts'

/** A body without fields; it may be absent. */
export const NO_FIELDS = Type.Object({})

/** Returns the shape of the response of an action, if it is not the resource. */
const toActionShape = (name: string, response: TObject): Shape => ({
  type: name,
  members: response,
  selectable: false,
})

interface ActionInput extends WriteInput {
  /** The fields of the action. */
  body: Fields
  lock: RowLock
  /** Undefined without a condition. */
  checkPrecondition: ((current: Row) => void) | undefined
}

export function createActionOperation(
  context: OperationContext,
  name: string,
  action: ActionOptions,
  run: RunAction<Row>,
): WriteOperation<ActionInput, Row> {
  const { resource } = context
  const { body: schema = NO_FIELDS, response, removes = false } = action
  const access = resource.operations[name]?.access ?? {}
  const fillDefaults = createDefaults(schema)
  const shape = response && toActionShape(name, response)

  return {
    isIdempotent: true,
    mayRemove: true,

    /** The body: an object (400), with valid fields (422). */
    read(call) {
      call.check()
      const { actor, id } = call.address
      const { members, prefix } = call.open(id)
      return {
        call,
        prefix,
        body: fillDefaults(members),
        lock: { id, mode: removes ? 'update' : 'no key update', rule: access[actor.role] ?? false },
        checkPrecondition: readRowPrecondition(context, call),
      }
    },

    getLock: ({ lock }) => lock,

    find: (connection, { call, lock }, isLocking) =>
      findRow(context, connection, call.address, lock.rule, isLocking ? lock.mode : undefined),

    /** Checks preconditions (428, 412), and runs the action (409, 422). */
    async write(connection, writes) {
      const results: Written[] = []
      for (const { input, found: current } of writes) {
        const { address, request } = input.call
        input.checkPrecondition?.(current)
        // The action has the connection, and may write users with it.
        request.mayChangeCredentials = true
        const store = openStore(resource, connection, input.call)
        const result = await run({ store, current, body: input.body, actor: address.actor })
        results.push(
          shape
            ? { status: 201, entity: { type: name, members: { ...result, id: String(result.id) } }, shape }
            : // Without a schema of its own, the action returns the row.
              { status: 201, row: result as Row },
        )
      }
      return results
    },
  }
}
