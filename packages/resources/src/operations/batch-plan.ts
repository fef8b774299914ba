/** Plans the operations of a batch: each as the write that a request of its own would be. */

import { checkGuard } from '@resource-api/api/access'
import type { Actor } from '@resource-api/api/actor'
import { ApiError, type FieldCode, MAX_VIOLATIONS, type Violation } from '@resource-api/api/errors'
import { createViolation, getEnvelope, openBody } from '@resource-api/api/validation'
import { type Connection, newId } from '@resource-api/database'
import { type RowId, readId } from '@resource-api/database/key'
import { isObject } from '@resource-api/database/values'
import type { Static } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type FindCreatedId, replaceCreatedIds } from '../request/created-ids.ts'
import { readAddress } from '../request/resource-address.ts'
import { createCheck, type WriteCall } from '../request/write-call.ts'
import { batchMethods, MAX_PATH_LENGTH, type Operation } from '../schemas/batches.ts'
import type { PlannedWrite } from './write-many.ts'
import type { BatchMethod, WriteRoute, WriteRoutes } from './write-routes.ts'

type SentOperation = Static<typeof Operation>

/** An operation of a batch, with what it writes. */
export interface PlannedOperation extends PlannedWrite {
  index: number
  method: BatchMethod
  route: WriteRoute
  /** The id of the row that it creates, if it is known before. */
  createdId: RowId | undefined
  /** Equal for operations on the same row. */
  target: string
}

type CreatedIds = readonly (RowId | undefined)[]

/** The request of a batch. */
export interface BatchRequest {
  request: FastifyRequest
  reply: FastifyReply
  actor: Actor
  /** The ids that an earlier run gave the resources, by the indexes of the operations. Default: new ones. */
  createdIds?: CreatedIds
}

/** Reads one operation. Adds what is wrong with it to the violations, and returns undefined if it has no plan. */
function planOperation(
  routes: WriteRoutes,
  { request, reply, actor }: BatchRequest,
  { method, path, body: sentBody, if_match }: SentOperation,
  { index, createdId, findId }: { index: number; createdId: RowId | undefined; findId: FindCreatedId },
  violations: Violation[],
): PlannedOperation | undefined {
  const field = `operations.${index}`
  const refuse = (name: string, message: string, code: FieldCode) =>
    void violations.push(createViolation(`${field}.${name}`, message, code))

  // 1. The path and its method.
  const found = routes.find(method, path)
  if (!found) {
    const methods = routes.listMethods(path)
    if (methods.length === 0) refuse('path', 'is no path of a collection or resource', 'NOT_FOUND')
    else refuse('method', `is not allowed; the path has ${methods.join(', ')}`, 'INVALID_VALUE')
    return
  }
  const { route } = found
  const { context, isCreation, operation } = route

  // 2. What the role and the credential never permit.
  try {
    const guard = request.server.guards.get(`${context.resource.name}:${route.name}`)
    if (guard) checkGuard(actor, guard)
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    refuse('path', error.message, 'FORBIDDEN')
    return
  }

  // 3. `$n` in the path and in the body.
  const findings: Violation[] = []
  // In the path of a row whose id begins with it, `$` is encoded.
  const findText = (reference: string) => findId(reference)?.toString()
  const sentParams = path.includes('/$')
    ? replaceCreatedIds(found.params, route.params, `${field}.path`, findText, findings)
    : found.params
  for (const { message, code } of findings.splice(0)) refuse('path', message, code)
  const envelope = route.body && getEnvelope(route.body)
  const isTyped = envelope !== undefined && sentBody !== undefined && envelope.open(sentBody).prefix !== ''
  const schema = isTyped ? envelope.document : (envelope?.fields ?? route.body)
  const replaced = replaceCreatedIds(sentBody, schema, `${field}.body`, findId, violations)

  // 4. The ids of the path: one that is no id is 404 when its turn comes. The body, if the method has one.
  const params = route.readParams(sentParams)
  if (!route.body && sentBody !== undefined) refuse('body', `is not allowed for ${method}`, 'UNKNOWN_FIELD')
  if (isCreation && if_match !== undefined)
    refuse('if_match', 'needs a resource that exists', 'UNKNOWN_FIELD')
  const body = route.readBody(replaced)
  const address = readAddress(context.resource, { actor, params: params.value ?? found.params })
  const call: WriteCall = {
    request,
    reply,
    address,
    // The validator has read it by the schema of the route.
    open: (id) => openBody(route.body, Object(body.error ? replaced : body.value), id),
    preconditions: { 'if-match': if_match },
    ...(createdId !== undefined && { createdId }),
    check: createCheck(body),
  }
  const before = violations.length
  try {
    const input = operation.read(call)
    const id = isCreation
      ? (createdId ?? readId(context.resource.rowParts.key, input.fields ?? {}))
      : address.id
    // A row whose id the database makes is another one than those of all other operations.
    const target = id === undefined ? `$${index}` : `${context.resource.name}/${id}`
    // Another operation may change the same row before, so that only creations are joined.
    const isJoined = isCreation && !params.error && operation.isJoined?.(input) === true
    return {
      index,
      method,
      route,
      operation,
      input,
      isJoined,
      error: params.error,
      createdId: isCreation ? id : undefined,
      target,
    }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const inBody = error.violations.map((each) => ({ ...each, field: `${field}.body.${each.field}` }))
    if (inBody.length > 0) violations.push(...inBody)
    else if (sentBody === undefined) refuse('body', 'is required', 'REQUIRED')
    else if (violations.length === before) refuse('body', error.message, 'INVALID_VALUE')
  }
}

const isOperation = (sent: unknown): sent is SentOperation =>
  isObject(sent) &&
  batchMethods.some((method) => method === sent.method) &&
  typeof sent.path === 'string' &&
  sent.path !== '' &&
  sent.path.length <= MAX_PATH_LENGTH &&
  (sent.body === undefined || isObject(sent.body)) &&
  (sent.if_match === undefined || typeof sent.if_match === 'string')

/**
 * Draws the ids of rows that the database makes, if other operations of the batch name them by `$n`.
 * @returns undefined if there are none
 */
export async function drawCreatedIds(
  routes: WriteRoutes,
  connection: Connection,
  operations: readonly unknown[],
): Promise<CreatedIds | undefined> {
  const ids: (RowId | undefined)[] = []
  const text = JSON.stringify(operations)
  for (const [index, operation] of operations.entries()) {
    const route = isOperation(operation) ? routes.find(operation.method, operation.path)?.route : undefined
    const { drawId } = route?.isCreation ? route.context.resource : {}
    if (drawId && text.includes(`$${index}`)) ids[index] = await drawId(connection)
  }
  return ids.length > 0 ? ids : undefined
}

/**
 * Plans the operations of a batch.
 * @param operations as they were sent, if the form of the batch is wrong
 * @returns the plans; and everything that is wrong with the operations and needs no query, at most MAX_VIOLATIONS
 */
export function planBatch(
  routes: WriteRoutes,
  batch: BatchRequest,
  operations: readonly unknown[],
): { planned: PlannedOperation[]; violations: Violation[] } {
  const violations: Violation[] = []
  const planned: PlannedOperation[] = []
  const createdIds: (RowId | undefined)[] = []
  const findId: FindCreatedId = (reference) => {
    const index = reference.slice(1)
    return String(Number(index)) === index ? createdIds[Number(index)] : undefined
  }
  for (const [index, operation] of operations.entries()) {
    if (violations.length >= MAX_VIOLATIONS) break
    // What has another form is reported by the validator of the batch.
    if (!isOperation(operation)) {
      createdIds.push(undefined)
      continue
    }
    const route = routes.find(operation.method, operation.path)?.route
    const isServers = route?.context.resource.rowParts.key.madeBy === 'server'
    const createdId = batch.createdIds?.[index] ?? (isServers ? newId() : undefined)
    const each = planOperation(routes, batch, operation, { index, createdId, findId }, violations)
    if (each) planned.push(each)
    createdIds.push(route?.isCreation ? (createdId ?? each?.createdId) : undefined)
  }
  return { planned, violations }
}
