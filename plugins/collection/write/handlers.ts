/** The handlers of create, replace, update and remove: they read the request, run the write and send its response. */
import type { Ajv } from 'ajv'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { newId } from '../../../lib/ids.ts'
import { isAwaited } from '../../../lib/is-awaited.ts'
import { isObject } from '../../../lib/is-object.ts'
import type { MaybePromise } from '../../../lib/maybe-promise.ts'
import type { Actor } from '../../access/index.ts'
import { ApiError, invalidBody, withPrefix } from '../../errors/index.ts'
import { readPrecondition } from '../../http/preconditions.ts'
import { getClientIp } from '../../rate-limit/windows.ts'
import { readObject } from '../../versioning/representation/body.ts'
import type { ReadBody } from '../../versioning/representation/types.ts'
import type { Resource } from '../compile.ts'
import type { Row, Tools } from '../definition.ts'
import { getInputSchema } from '../openapi/inputs.ts'
import type { CollectionOptions } from '../options.ts'
import { countReplyBytes } from '../read/large-replies.ts'
import { getActor } from '../request/actor.ts'
import { type BodyReader, createBodyReader, type Mode } from '../request/body.ts'
import { createNoQueryReader } from '../request/query-validation.ts'
import { createResourceAddresses, type ResourceAddress } from '../request/resource-address.ts'
import { createResponseBuilder } from '../response-builder.ts'
import { sendResponse } from './response.ts'
import { createWriteSteps } from './steps.ts'
import { createRunWrite, type WriteSteps } from './strategies.ts'
import type { Write } from './types.ts'

/**
 * Returns the validated fields of a body.
 * @throws ApiError 422 with everything that is wrong with the fields and with the envelope around them
 */
function readFields(
  reader: BodyReader,
  { members, prefix, violations }: ReadBody,
  known?: Readonly<Record<string, unknown>>,
) {
  try {
    const body = reader.read(members, prefix, known)
    if (violations.length > 0) throw invalidBody([])
    return body
  } catch (error) {
    if (violations.length === 0 || !(error instanceof ApiError)) throw error
    throw invalidBody([...violations, ...error.violations])
  }
}

/** Adds a violation for each field that this caller may not set. */
function refuseWithheld(resource: Resource, actor: Actor, read: ReadBody): ReadBody {
  const { members, prefix } = read
  const refused = isObject(members)
    ? (resource.withheld?.(actor) ?? []).filter((name) => name in members)
    : []
  if (refused.length === 0) return read
  const violations = refused.map((name) => ({
    field: `${prefix}${name}`,
    message: 'is read-only',
    code: 'READ_ONLY' as const,
  }))
  return { ...read, violations: [...read.violations, ...violations] }
}

type Handler = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>

/**
 * Makes later reads of the caller go to the primary. It is recorded before the response is sent, since the next request
 * may be a read, and also after a failure, since the write may have been committed.
 */
function recordingWriter(database: FastifyInstance['database'], handler: Handler): Handler {
  const { replicas } = database
  if (!replicas) return handler
  return async (request, reply) => {
    try {
      return await handler(request, reply)
    } finally {
      const { userId, credential } = getActor(request)
      if (credential !== 'none') await replicas.recentWriters.publish(userId)
    }
  }
}

/** Creates the handlers of one resource in one version. */
export function createWriteHandlers(
  resource: Resource,
  app: FastifyInstance,
  options: CollectionOptions,
  ajv: Ajv,
) {
  const { representation, publicUrl } = options
  const { database, refusal, addressing, passwords, limits, idempotency } = app
  const steps = createWriteSteps(resource, database, refusal)
  const runWrite = createRunWrite(database, new Set(Object.keys(resource.columns)))
  const addresses = createResourceAddresses(resource)
  const builder = createResponseBuilder(resource, representation)
  const readNoQuery = createNoQueryReader(ajv)
  const createReader = (mode: Mode) =>
    createBodyReader({
      ajv,
      read: resource.schemas.read,
      input: getInputSchema(resource, mode),
      mode,
      check: resource.check,
      kept: resource.kept,
      identity: ['id', ...(resource.parent ? [resource.parent.member] : [])],
    })
  const readers = {
    create: createReader('create'),
    replace: createReader('replace'),
    update: createReader('update'),
  }

  const createTools = (request: FastifyRequest, reply: FastifyReply, actor: Actor): Tools => ({
    // A sign-up has no user yet: sign-ups from one address wait for each other.
    passwords: passwords.for(actor.credential === 'none' ? getClientIp(request) : actor.userId, () =>
      isAwaited(reply),
    ),
    attempt: (account, verify) => limits.confirmPassword(request, actor.userId, account, verify),
  })

  /** Returns the write under the Idempotency-Key of the request, if it has one. Its path has one form, whatever the client used. */
  const readKeyedWrite = (
    request: FastifyRequest,
    actor: Actor,
    { id, parent }: Partial<ResourceAddress>,
    sent: unknown,
  ) => {
    const path = `/api/v${representation.version}${addresses.getPath(parent)}${id === undefined ? '' : `/${id}`}`
    return idempotency.read(request, actor, path, sent)
  }

  const createWrite = (
    request: FastifyRequest,
    reply: FastifyReply,
    { id, parent }: ResourceAddress,
    write: Pick<Write, 'actor' | 'keyedWrite' | 'respond'> & { requiresIfMatch: boolean },
  ): Write => ({
    id,
    parent,
    actor: write.actor,
    keyedWrite: write.keyedWrite,
    precondition: readPrecondition(request, write.requiresIfMatch),
    getTools: () => createTools(request, reply, write.actor),
    getTag: (row) => builder.getTag(request, row),
    respond: write.respond,
  })

  /** Runs the steps of a write. Errors name the fields as they stood in the body. */
  const run = async <Found>(
    request: FastifyRequest,
    reply: FastifyReply,
    actor: Actor,
    { prefix }: ReadBody,
    getSteps: () => MaybePromise<WriteSteps<Found>>,
  ): Promise<string> => {
    try {
      const response = await runWrite(await getSteps())
      const counting = countReplyBytes(request, actor, response.body.length)
      if (counting) await counting
      return sendResponse(reply, response)
    } catch (error) {
      throw withPrefix(error, prefix)
    }
  }

  const create: Handler = async (request, reply) => {
    const actor = getActor(request)
    const { parent } = addresses.read(request, actor)
    const sent = readObject(request.body)
    const keyedWrite = readKeyedWrite(request, actor, { parent }, sent)
    readNoQuery(request)
    const body = representation.body(sent, resource.name, undefined)
    const fields = readFields(readers.create, refuseWithheld(resource, actor, body))
    addresses.ensureUuids(parent)
    const { form } = addressing.getAddress(request.raw)
    const getLocation = (row: Row) => `${publicUrl ?? ''}${form}${addresses.getPath(parent)}/${row.id}`
    const respond = (row: Row) =>
      builder.buildResponse(request, reply, { status: 201, row, actor, location: getLocation(row) })
    const address = { id: newId(), parent }
    const write = createWrite(request, reply, address, { actor, keyedWrite, respond, requiresIfMatch: false })
    return run(request, reply, actor, body, () => steps.create(write, fields))
  }

  const createChange =
    (mode: 'replace' | 'update'): Handler =>
    async (request, reply) => {
      const actor = getActor(request)
      const address = addresses.read(request, actor)
      const sent = readObject(request.body)
      // PUT needs no key: sent twice, it has the same effect.
      const keyedWrite = mode === 'update' ? readKeyedWrite(request, actor, address, sent) : undefined
      readNoQuery(request)
      const body = representation.body(sent, resource.name, address.id)
      const known = resource.parent
        ? { id: address.id, [resource.parent.member]: address.parent }
        : { id: address.id }
      const reader = readers[mode]
      const fields = readFields(reader, body, known)
      addresses.ensureUuids(address.id, address.parent)
      const respond = (row: Row) =>
        builder.buildResponse(request, reply, { status: 200, row, actor, location: null })
      const write = createWrite(request, reply, address, {
        actor,
        keyedWrite,
        respond,
        requiresIfMatch: options.requireIfMatch,
      })
      return run(request, reply, actor, body, () => steps.change(write, { mode, reader, fields }))
    }

  const remove: Handler = async (request, reply) => {
    const actor = getActor(request)
    const address = addresses.read(request, actor)
    readNoQuery(request)
    addresses.ensureUuids(address.id, address.parent)
    const respond = () => {
      throw new Error('A removal has no response body')
    }
    const requiresIfMatch = options.requireIfMatch
    await steps.remove(
      createWrite(request, reply, address, { actor, keyedWrite: undefined, respond, requiresIfMatch }),
    )
    return reply.code(204).header('Cache-Control', 'no-store').send()
  }

  return {
    create: recordingWriter(database, create),
    replace: recordingWriter(database, createChange('replace')),
    update: recordingWriter(database, createChange('update')),
    remove: recordingWriter(database, remove),
  }
}
