/** GET on a member: one resource. */
import { requireCredential } from '@resource-api/api/access'
import { buildStrongTag, isNotModified, needsPrimary, sendNotModified } from '@resource-api/api/preconditions'
import { allows, getRule, hasPaths } from '@resource-api/api/rules'
import type { Connection } from '@resource-api/database'
import { BYTES_PER_COST, countReplyBytes } from '@resource-api/http/internal'
import { AGGREGATES } from '../definition/definition.ts'
import type { ReadHandler } from '../definition/handlers.ts'
import { checkQuery, createCheckRole } from '../request/query-check.ts'
import { createNotFound, readAddress } from '../request/resource-address.ts'
import { createSelectionQuery } from '../request/selection.ts'
import { CACHE_CONTROL, showOnly, toTimestamp } from '../response/response-builder.ts'
import { getReplica, type OperationContext } from './context.ts'
import { include } from './include.ts'
import type { RowReader } from './read-page.ts'

/** @param reader reads the row in the place of the engine */
export function createReadHandler(context: OperationContext, reader?: RowReader): ReadHandler {
  const { app, builder, resource } = context
  const { access, parent, select } = resource
  const checkRole = createCheckRole(resource, (view) =>
    createSelectionQuery(view, app.resourceWriter.mappings),
  )

  return async (request, reply) => {
    // 1. Caller (401), query string (400), the ids in the path (404), the credential for included relations (403).
    const { actor, id, parent: parentId } = readAddress(resource, request)
    // A collection without aggregates: 404 before the check of the query string, which would be 400.
    if (id === AGGREGATES) throw createNotFound(resource, id)
    checkQuery(request, checkRole)
    const { fields, include: names, requires, shown } = request.query
    for (const required of requires) requireCredential(actor, required)

    // 2. The row (404), access to it (403), its relations. A replica may lag behind: only the primary decides that a row
    // does not exist or may not be read.
    const rule = getRule(access, 'read', actor)
    const find = async (connection: Connection) => {
      if (reader) return { row: await reader.readRow(actor, id), included: undefined }
      const row = await select.one(connection, id, { fields, include: names, rule, actor })
      if (!row || row.id !== id || (parent && row[parent.member] !== parentId))
        throw createNotFound(resource, id)
      const isAllowed = hasPaths(rule) ? row.is_allowed === true : allows(rule, row, actor)
      if (!isAllowed) throw app.refusal(() => createNotFound(resource, id), actor)
      const included = names.length > 0 ? await include(connection, resource, [row], names, actor) : undefined
      return { row, included }
    }
    const { replicas } = app.database
    const replica =
      replicas && !needsPrimary(request) ? getReplica(replicas, resource, actor, names) : undefined
    const onReplica = replica && (await find(replica).catch(() => undefined))
    const { row, included } = onReplica ?? (await find(app.database))
    const bytes = select.estimateRowBytes(row) + (included?.bytes ?? 0)
    if (bytes >= BYTES_PER_COST) await countReplyBytes(request, actor, bytes)

    // 3. The entity tag and preconditions (412, 304).
    const tag = buildStrongTag(row.revision, builder.getShapeHash(request, shown ?? fields, included))
    const changedAt = included || builder.changedAt === undefined ? undefined : row[builder.changedAt]
    const updatedAt = typeof changedAt === 'string' ? toTimestamp(changedAt) : undefined
    reply.header('etag', tag).header('cache-control', CACHE_CONTROL)
    if (updatedAt !== undefined) reply.header('last-modified', new Date(updatedAt).toUTCString())
    if (isNotModified(request, tag, updatedAt)) return sendNotModified(reply)

    // 4. The resource, which the version puts into its envelope.
    const entity = showOnly(resource.toEntity(row, actor, fields, included?.relations[0]), shown)
    return { entity, meta: included?.meta }
  }
}
