/** Plans the operations of a batch: each as the write that a request of its own would be. */

import { checkGuard } from '@resource-api/api/access'
import type { Actor } from '@resource-api/api/actor'
import { ApiError, type FieldCode, MAX_VIOLATIONS, type Violation } from '@resource-api/api/errors'
import { createViolation, getEnvelope, openBody } from '@resource-api/api/validation'
import { newId } from '@resource-api/database'
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
  /** Equal for operations on the same row. */
  target: string
}

/** The request of a batch. */
export interface BatchRequest {
  request: FastifyRequest
  reply: FastifyReply
  actor: Actor
  /** The ids that an earlier run gave the resources, by the indexes of the operations. Default: new ones. */
  createdIds?: readonly (string | undefined)[]
}

/** Reads one operation. Adds what is wrong with it to the violations, and returns undefined if it has no plan. */
function planOperation(
  routes: WriteRoutes,
  { request, reply, actor }: BatchRequest,
  { method, path, body: sentBody, if_match }: SentOperation,
  { index, createdId, findId }: { index: number; createdId: string; findId: FindCreatedId },
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
  const sentParams = replaceCreatedIds(found.params, route.params, `${field}.path`, findId, findings)
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
    createdId,
    check: createCheck(body),
  }
  const before = violations.length
  try {
    const input = operation.read(call)
    const id = isCreation ? createdId : address.id
    const target = `${context.resource.name}/${id}`
    // Another operation may change the same row before, so that only creations are joined.
    const isJoined = isCreation && !params.error && operation.isJoined?.(input) === true
    return { index, method, route, operation, input, isJoined, error: params.error, target }
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
  const createdIds: (string | undefined)[] = []
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
    const createdId = batch.createdIds?.[index] ?? newId()
    const each = planOperation(routes, batch, operation, { index, createdId, findId }, violations)
    if (each) planned.push(each)
    createdIds.push(routes.find(operation.method, operation.path)?.route.isCreation ? createdId : undefined)
  }
  return { planned, violations }
}
