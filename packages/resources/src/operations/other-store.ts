/** Writes rows of other resources for code, by the steps of their own operations. */
import { invalidBody, prefixFields, type Violation } from '@resource-api/api/errors'
import { compileValue, type Fields } from '@resource-api/api/validation'
import type { RowId } from '@resource-api/database/key'
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import { listCommonFields } from '../definition/fields.ts'
import type { Resource } from '../definition/resource.ts'
import type { Row } from '../definition/store.ts'
import { toBodySchema } from '../request/body-schema.ts'
import { getTimestamps, toTimestamp, type Written } from '../response/response-builder.ts'
import { createChangeOperation } from './change.ts'
import type { OperationContext } from './context.ts'
import { createCreateOperation } from './create.ts'
import { createRemoveOperation } from './remove.ts'
import { limitLocks, lockRow, toCanonical } from './row-locks.ts'
import type { WriteOperation } from './write-operation.ts'

/** A timestamp as a row has it. */
const STORED_TIMESTAMP = /^\d{4}-\d\d-\d\d /

const LOCKS = { reference: 'key share', change: 'no key update', removal: 'update' } as const

const all = { admin: true }

/**
 * Returns a resource as code writes it: the code decides, not the rules for the caller, and PUT keeps what is absent. Beyond
 * the fields of bodies, it has read-only ones, which the read schema validates, and columns that the API does not show,
 * which are not validated.
 */
function toUnrestricted(context: OperationContext): OperationContext {
  const { options } = context
  const { parent: _parent, locked: _locked, withheld: _withheld, ...others } = context.resource
  const { create, change, read } = others.schemas
  const common = listCommonFields(others.table)
  const stored = Object.keys(others.columns).flatMap((name) => {
    const { default: _, ...property }: TSchema = read.properties[name] ?? Type.Unknown()
    return common.includes(name) ? [] : [[name, property]]
  })
  const { properties } = Type.Partial(Type.Object(Object.fromEntries(stored)))
  const resource: Resource = {
    ...others,
    schemas: {
      read,
      create: Type.Object({ ...properties, ...create.properties }),
      change: Type.Object({ ...properties, ...Type.Partial(change).properties }),
    },
    kept: [...Object.keys(properties), ...Object.keys(change.properties)],
    access: { create: all, replace: all, remove: all },
    bearerOnly: false,
    references: [],
    forRole: () => resource,
  }
  return { ...context, resource, bodyReferences: [], options: { ...options, requireIfMatch: false } }
}

/** Creates a function that validates the fields that code gives a row. One that is undefined is absent. */
function createFieldReader(schema: TObject, check?: (fields: Fields) => readonly Violation[]) {
  const timestamps = getTimestamps(schema)
  const validate = compileValue(toBodySchema(schema, 'create'))
  return (given: Readonly<Fields>): Fields => {
    const sent = Object.entries(given).flatMap(([name, field]) => {
      const isStored = typeof field === 'string' && timestamps.has(name) && STORED_TIMESTAMP.test(field)
      return field === undefined ? [] : [[name, isStored ? toTimestamp(field) : field]]
    })
    const { value, violations } = validate(Object.fromEntries(sent))
    // A body is an object, and so is its normalized form.
    const fields = value as Fields
    const found = [...violations, ...(check?.(fields) ?? [])]
    if (found.length > 0) throw invalidBody(found)
    return fields
  }
}

function createWrites(context: OperationContext) {
  const own = toUnrestricted(context)
  const { check, code, schemas } = own.resource
  return {
    readNew: createFieldReader(schemas.create, (fields) => check?.(fields, 'create') ?? []),
    readChange: createFieldReader(schemas.change, (fields) => check?.(fields, 'update') ?? []),
    create: createCreateOperation(own, code.create ?? {}),
    change: createChangeOperation(own, 'replace', code.update ?? code.replace ?? {}),
    remove: createRemoveOperation(own, code.remove ?? {}),
  }
}

/** Creates the function that opens the store of a resource for code of others. */
export function createOtherStore(context: OperationContext): NonNullable<Resource['openOtherStore']> {
  const { resource } = context
  const { code, defaults, isCredential, name } = resource
  /** Its schemas are compiled at the first use, since code writes few resources. */
  let writes: ReturnType<typeof createWrites> | undefined

  return (connection, { address, origin, reply, request }) => {
    writes ??= createWrites(context)
    const { create, change, remove, readNew, readChange } = writes
    // The code of the resource sees the caller as an admin.
    const actor = { ...address.actor, role: 'admin' } as const
    if (isCredential) request.mayChangeCredentials = true

    /** Runs the steps of an operation, and names the resource in the violations of an error. */
    const write = async (operation: WriteOperation, id: RowId, read = (): Fields => ({})) => {
      try {
        const members = read()
        const input = operation.read({
          request,
          reply,
          // Not all of the call: a creation in a batch has the id of its own row.
          ...(origin && { origin }),
          address: { actor, id: toCanonical(id), parent: undefined },
          open: () => ({ members, prefix: '' }),
          preconditions: {},
          check() {},
        })
        if (operation.getLock) limitLocks(connection, name)
        const found = await operation.find(connection, input, true)
        return await operation.write(connection, [{ input, found, prepared: undefined }])
      } catch (error) {
        throw prefixFields(error, `${name}.`)
      }
    }
    const getRow = ([written]: readonly Written[]): Row => {
      if (!written || !('row' in written)) throw new Error(`A write in ${name} returned no row`)
      return written.row
    }

    return {
      find(id, use = 'change') {
        const mode = LOCKS[use]
        if (mode !== 'key share') limitLocks(connection, name)
        return lockRow(resource, connection, { id, mode, rule: true }, actor)
      },
      async create(fields) {
        if (code.create?.prepare)
          throw new Error(`Rows of ${name} need work before a transaction: only requests create them`)
        return getRow(await write(create, '', () => readNew({ ...defaults?.(actor), ...fields })))
      },
      change: async (id, fields) => getRow(await write(change, id, () => readChange(fields))),
      async remove(id) {
        await write(remove, id)
      },
    }
  }
}
