/** Restores: `POST /{collection}/{id}/restores` creates a deleted resource again, from the event of its deletion. */
import { commonFailures, toWords } from '@resource-api/api/documents'
import { ApiError, apiError } from '@resource-api/api/errors'
import { getRule, type Rule } from '@resource-api/api/rules'
import type { Fields } from '@resource-api/api/validation'
import { type Connection, prepare } from '@resource-api/database'
import { hashEventId, type RowId } from '@resource-api/database/key'
import { events, outbox } from '@resource-api/database/tables'
import { Type } from '@sinclair/typebox'
import { sql } from 'drizzle-orm'
import { listConflicts } from '../conflicts.ts'
import { RESTORES } from '../definition/definition.ts'
import type { Resource } from '../definition/resource.ts'
import type { Row } from '../definition/store.ts'
import { buildActionSchema } from '../openapi/operations.ts'
import { isPermitted, type OperationContext } from '../operations/context.ts'
import { checkReferences, findOpenReferences } from '../operations/references.ts'
import type { WriteInput, WriteOperation } from '../operations/write-operation.ts'
import { getOrigin } from '../outbox/origin.ts'
import { createNotFound, ensureParent, MissingRowError } from '../request/resource-address.ts'
import type { Written } from '../response/response-builder.ts'
import { buildActionBody, toWriteRoute } from './routes.ts'

/** Finds the last deletion. An event has no place in the feed at first: it is in the outbox. */
const selectDeletion = prepare((db) => {
  const { placeholder } = sql
  const parts = [events, outbox].map(
    (table) => sql`select columns, revision from ${table} where ${table.resource_id} = ${placeholder('id')}
      and ${table.type} = ${placeholder('type')} and (${placeholder('days')}::int = 0
        or ${table.created_at} >= statement_timestamp() - make_interval(days => ${placeholder('days')}::int))`,
  )
  return db.execute<{ columns: Fields; revision: number }>(
    sql`select columns, revision from (${sql.join(parts, sql` union all `)}) as deletions order by revision desc limit 1`,
  )
})

/** Checks that events have all of a row. @throws Error */
function checkRecorded({ columns, isRecorded = true, name, rowParts, schemas }: Resource): void {
  if (!isRecorded) throw new Error(`${name}: without events, access to restore is not possible`)
  const lost = Object.entries(columns).flatMap(([member, column]) => {
    // Columns that follow from others.
    const isComputed = column.generated || member === rowParts.searched || column === rowParts.revision
    return member in schemas.read.properties || isComputed ? [] : [member]
  })
  if (lost.length > 0) {
    const remedy = 'show them in the schema, with `fields` to no role if need be'
    throw new Error(
      `${name}: a restore would lose the columns ${lost.join(', ')}, which events lack; ${remedy}`,
    )
  }
}

const describeExisting = ({ singular }: Resource) => `The ${toWords(singular)} exists: it is not deleted`

/** A row that exists, or that a restore creates. */
interface Found {
  row: Row
  isDeleted: boolean
}

function createRestoreOperation({
  app,
  options,
  resource,
}: OperationContext): WriteOperation<WriteInput, Found> {
  const { access, columns, name, operations, parent, references, rowParts, select, stores } = resource

  const findDeleted = async (connection: Connection, id: RowId): Promise<Found | undefined> => {
    const values = { id: hashEventId(id), type: `${name}.deleted`, days: options.retentionDays }
    const [deletion] = await selectDeletion(connection, values)
    if (!deletion) return undefined
    // PostgreSQL computes the others.
    const stored = Object.entries(deletion.columns).filter(
      ([column]) => column !== rowParts.updated && columns[column]?.generated === undefined,
    )
    // The columns of the table, but the time, which is that of this write.
    const row: Row = { ...Object.fromEntries(stored), id, revision: deletion.revision + 1 }
    return { row, isDeleted: true }
  }

  const createConflict = (cause?: unknown) =>
    apiError('RESOURCE_CONFLICT', { message: describeExisting(resource), cause })

  return {
    isIdempotent: true,
    mayRemove: true,

    /** No fields (400, 422). */
    read(call) {
      call.check()
      // Errors name fields of the row.
      return { call, prefix: '', fields: {} }
    },

    /** The parent, the row or its deletion (404), and the rules to restore, create and delete it (403). */
    async find(connection, { call }) {
      const { actor, id, parent: parentId } = call.address
      const createMissing = () => createNotFound(resource, id)
      if (app.outbox.recorders.size === 0) throw new MissingRowError(createMissing())
      await ensureParent(connection, resource, parentId)
      const row = await select.whole(connection, id)
      const found = row ? { row, isDeleted: false } : await findDeleted(connection, id)
      if (!found || (parent && found.row[parent.member] !== parentId))
        throw new MissingRowError(createMissing())
      const permits = (rule: Rule) => isPermitted(resource, connection, found.row, { rule, actor })
      // Without an operation that reads one row, that of lists decides.
      const isSeen = await permits(getRule(access, access.read ? 'read' : 'list', actor))
      // An error for a retry with the key too: the deletion is there, but not for this caller.
      if (!isSeen && found.isDeleted) throw createMissing()
      const own = operations[RESTORES]?.access[actor.role] ?? false
      const rules = [own, getRule(access, 'create', actor), getRule(access, 'remove', actor)]
      for (const rule of rules) if (!isSeen || !(await permits(rule))) throw app.refusal(createMissing)
      return found
    },

    /** That it does not exist (409), references (422), and `INSERT ... RETURNING`, which records the event too. */
    async write(connection, writes) {
      const written: Written[] = []
      for (const { input, found } of writes) {
        const { address, request } = input.call
        const { actor } = address
        if (!found.isDeleted) throw createConflict()
        const open = findOpenReferences(references, found.row, Object.keys(found.row), actor)
        await checkReferences(connection, open, actor)
        const rows = await stores
          .insertRows(connection, getOrigin(actor, request.id), [found.row])
          .catch((error) => {
            // The primary key: another restore was faster.
            const isTaken = error instanceof ApiError && error.violations.some(({ field }) => field === 'id')
            throw isTaken ? createConflict(error) : error
          })
        for (const row of rows) written.push({ status: 201, row })
      }
      return written
    },
  }
}

function buildRestoreSchema({ app, resource }: OperationContext) {
  const { singular } = resource
  const texts = {
    operationId: `restore${singular}`,
    summary: `Restore a deleted ${toWords(singular)}`,
    description:
      'Creates the resource again as it was when it was deleted, with its id, from the event of the deletion. It is 404 ' +
      'when there is no such event, such as after the time for which events are kept. The body is empty or `{}`.',
  }
  return {
    ...buildActionSchema(resource, RESTORES, texts, app.resourceWriter),
    headers: Type.Object({}),
    failures: [...commonFailures, 404, 422],
    conflicts: [
      { name: 'exists', message: describeExisting(resource) },
      ...listConflicts(resource, 'create', app.resourceWriter.mappings),
    ],
  }
}

/** POST on `/restores` of a deleted resource. */
export function restore(context: OperationContext) {
  checkRecorded(context.resource)
  const schema = { ...buildRestoreSchema(context), body: buildActionBody(context) }
  return toWriteRoute(context, { name: RESTORES }, schema, createRestoreOperation(context))
}
