/** POST on a collection: creates resources, or imports them. */
import { invalidQuery } from '@resource-api/api/errors'
import { getRowType } from '@resource-api/api/requests'
import { getRule, type Rule } from '@resource-api/api/rules'
import { createViolation } from '@resource-api/api/validation'
import { type Connection, newId } from '@resource-api/database'
import { mapInTurns, SHORT_TURN_MS } from '@resource-api/database/concurrency'
import { readId } from '@resource-api/database/key'
import type { FastifyRequest } from 'fastify'
import type { CreateCode } from '../definition/code.ts'
import type { AnyHandler } from '../definition/handlers.ts'
import type { Row } from '../definition/store.ts'
import { getCallOrigin } from '../outbox/origin.ts'
import { createBodyReader } from '../request/body.ts'
import { createNotFound } from '../request/resource-address.ts'
import { getInitialValues } from '../sql/row-content.ts'
import type { OpenReference } from '../sql/used-rights.ts'
import { createChangeOperation } from './change.ts'
import { createTools, isPermitted, type OperationContext } from './context.ts'
import { createImportHandler } from './import.ts'
import { openStore } from './open-store.ts'
import { checkReferences, createRowRefusal, findOpenReferences, isReadable } from './references.ts'
import { limitCodeLocks } from './row-locks.ts'
import type { WriteInput, WriteOperation } from './write-operation.ts'

interface Creation extends WriteInput {
  fields: Partial<Row>
  /** Those of the columns. */
  values: Partial<Row>
  /** References in the body, and that of the path, which only the row itself can permit. */
  open: readonly OpenReference[]
  openParent: OpenReference | undefined
}

export function createCreateOperation(
  context: OperationContext,
  code: CreateCode<Row, Partial<Row>>,
): WriteOperation<Creation, void> {
  const { app, bodyReferences, resource } = context
  const { access, bearerOnly = false, parent, references, rowParts, stores, table } = resource
  const { key } = rowParts
  const initial = getInitialValues(table)
  const bodyReader = createBodyReader(resource, 'create', app.resourceWriter.mappings[resource.name]?.lacking)
  const { locks, prepare, run, runAll, runAlone } = code
  const hasOwnCode = run !== undefined || runAll !== undefined

  const names = Object.keys(resource.schemas.create.properties)

  /** Returns the error for a row that the caller may not create: first that of the parent in the path (404, 403). */
  const createRefusal = async (
    connection: Connection,
    { call, openParent, values }: Creation,
    rule: Rule,
  ): Promise<Error> => {
    const { actor, parent: parentId } = call.address
    const row = { row: values, names, rule, actor }
    if (!parent || parentId === undefined) return createRowRefusal(context, connection, row)
    const createParentNotFound = () => createNotFound(parent.to, parentId)
    if (!(await parent.to.select.one(connection, parentId, { fields: ['id'] }))) return createParentNotFound()
    const isParentRefused = openParent && !(await isReadable(connection, openParent, actor))
    const refusal = isParentRefused ? undefined : await createRowRefusal(context, connection, row)
    return refusal?.violations.length ? refusal : app.refusal(createParentNotFound)
  }

  return {
    isIdempotent: true,
    isJoined: () => !run || runAll !== undefined,

    /** The body: an object (400), with valid fields (422), of which none is withheld from this caller. */
    read(call) {
      const { actor, parent: parentId } = call.address
      const { fields, prefix } = bodyReader.read(call, { withheld: resource.withheld?.(actor) })
      // The fields have their defaults.
      const id = call.createdId ?? (key.madeBy === 'server' ? newId() : undefined)
      const values: Partial<Row> = Object.assign({}, resource.defaults?.(actor), fields, initial)
      if (id !== undefined) values.id = id
      if (parent) Object.assign(values, { [parent.member]: parentId })
      const [openParent] = parent ? findOpenReferences(references, values, [parent.member], actor) : []
      const open =
        bodyReferences.length > 0
          ? findOpenReferences(bodyReferences, fields, Object.keys(fields), actor)
          : []
      return { call, fields, prefix, values, open, openParent }
    },

    /** The caller (401), the access rule of the new row (403, or 422 for its references), and the parent (403, 404). */
    async find(connection, input, isLocking) {
      const { call, openParent, values } = input
      const { actor } = call.address
      const scope = { rule: getRule(access, 'create', actor), actor }
      const refuse = () => createRefusal(connection, input, scope.rule)
      if (!(await isPermitted(resource, connection, values, scope))) throw await refuse()
      if (bearerOnly && isLocking) await app.callers.lock(connection, actor)
      // Before the rows that the code locks, as in changes.
      if (hasOwnCode && isLocking) await stores.lockTable(connection)
      if (openParent && !(await isReadable(connection, openParent, actor))) throw await refuse()
      call.usedRights?.addRow(scope.rule, values)
      if (openParent) call.usedRights?.addReferences([openParent])
    },

    ...(prepare && {
      prepare: (_connection, { call: { address, request, reply }, fields }) =>
        prepare({
          body: fields,
          actor: address.actor,
          tools: createTools(app, request, reply, address.actor),
        }),
    }),

    /** References (422), and the rows: `INSERT ... RETURNING`, which records the events too. */
    async write(connection, writes) {
      const [first] = writes
      if (!first) return []
      const { call } = first.input
      const { actor } = call.address
      const checkRow = async ({ input, prepared }: (typeof writes)[number]) => {
        if (input.open.length > 0) await checkReferences(connection, input.open, actor)
        input.call.usedRights?.addReferences(input.open)
        return { ...input.values, ...prepared?.columns }
      }
      const rows = await mapInTurns(writes, checkRow, SHORT_TURN_MS)
      const runOne = call.isAlone && runAlone ? runAlone : runAll ? undefined : run
      const runRows: typeof runAll = runOne ? (creations) => mapInTurns(creations, runOne) : runAll
      if (runRows) limitCodeLocks(connection, resource, locks)
      const store = runRows && openStore(resource, connection, call)
      for (const row of store && resource.drawId ? rows : []) {
        const drawn = row.id ?? (await resource.drawId?.(connection))
        if (drawn !== undefined) row.id = drawn
      }
      const created = store
        ? await runRows(rows.map((row) => ({ store, id: row.id ?? readId(key, row), body: row, actor })))
        : await stores.insertRows(connection, getCallOrigin(call), rows)
      return created.map((row) => ({ status: 201, row }))
    },

    isOneStatement: ({ call, open, openParent }) =>
      !hasOwnCode &&
      !(call.isAlone && runAlone) &&
      !openParent &&
      open.length === 0 &&
      !resource.hasExclusion &&
      !bearerOnly,
  }
}

/**
 * Creates the function that returns the handler of imports for a body of rows. One of JSON has no parameters of imports.
 * @param create the creation of the same route
 */
export function createImportFinder(context: OperationContext, create: WriteOperation) {
  const { options, resource } = context
  let update: WriteOperation | undefined
  const importRows = createImportHandler(context, {
    create,
    get update() {
      // The rows of an import have no tags. Read when all routes are registered.
      const untagged = { ...context, options: { ...options, requireIfMatch: false } }
      update ??= createChangeOperation(untagged, 'update', resource.code.update ?? {})
      return update
    },
  })
  return (request: FastifyRequest): AnyHandler | undefined => {
    if (getRowType(request)) return importRows
    if (Object(request.query).on_conflict === undefined) return undefined
    const message = 'is only for imports: with the Content-Type text/csv or application/x-ndjson'
    throw invalidQuery([createViolation('on_conflict', message, 'UNKNOWN_PARAMETER')])
  }
}
