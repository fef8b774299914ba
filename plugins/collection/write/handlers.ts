/** The handlers of create, replace, update and remove: they read the request, run the write and send its response. */
import type { Ajv } from 'ajv'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { newId } from '../../../lib/ids.ts'
import type { Actor } from '../../access/index.ts'
import { getLifetime } from '../../admission/request-lifetime.ts'
import { withPrefix } from '../../errors/index.ts'
import { readPrecondition } from '../../http/preconditions.ts'
import { getOrigin } from '../../outbox/origin.ts'
import { getClientIp } from '../../rate-limit/windows.ts'
import type { ReadBody } from '../../versioning/representation/types.ts'
import type { Row, Tools } from '../definition.ts'
import type { CollectionOptions } from '../options.ts'
import { readObject } from '../request/body.ts'
import { BYTES_PER_COST, countReplyBytes } from '../request/cost.ts'
import { createQueryRefusal } from '../request/query-validation.ts'
import { createResourceAddresses, type ResourceAddress } from '../request/resource-address.ts'
import { createResponseBuilder } from '../response-builder.ts'
import type { VersionedResource } from '../versions/apply-version.ts'
import { createVersionReader } from '../versions/version-reader.ts'
import { createWriteSteps } from './steps.ts'
import { createRunWrite, type WriteSteps } from './strategies.ts'
import type { ChangingWrite, Write } from './types.ts'

type Handler = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>

/**
 * Makes later reads of the caller go to the primary. It is recorded before the response is sent, since the next request
 * may be a read, and also after a failure, since the write may have been committed.
 */
export function recordingWriter(database: FastifyInstance['database'], handler: Handler): Handler {
  const { replicas } = database
  if (!replicas) return handler
  return async (request, reply) => {
    try {
      return await handler(request, reply)
    } finally {
      const { actor } = request
      if (actor && actor.credential !== 'none') await replicas.recentWriters.publish(actor.userId)
    }
  }
}

/** Creates the handlers of one resource in one version. */
export function createWriteHandlers(
  versioned: VersionedResource,
  app: FastifyInstance,
  options: CollectionOptions,
  ajv: Ajv,
) {
  const { resource, names } = versioned
  const { representation, publicUrl, requireIfMatch } = options
  const { database, refusal, addressing, passwords, limits, idempotency, outbox } = app
  const steps = createWriteSteps(resource, database, refusal)
  const runWrite = createRunWrite(database, new Set(Object.keys(resource.columns)))
  const addresses = createResourceAddresses(resource)
  const builder = createResponseBuilder(versioned, representation)
  const refuseQuery = createQueryRefusal(ajv)
  const readers = {
    create: createVersionReader(ajv, versioned, 'create'),
    replace: createVersionReader(ajv, versioned, 'replace'),
    update: createVersionReader(ajv, versioned, 'update'),
  }
  const toSentNames = names ? names.translateError : (error: unknown) => error
  const removeRow: typeof steps.remove = names
    ? (write) =>
        steps.remove(write).catch((error) => {
          throw names.translateError(error)
        })
    : steps.remove

  const createTools = (request: FastifyRequest, reply: FastifyReply, actor: Actor): Tools => ({
    // A sign-up has no user yet: sign-ups from one address wait for each other.
    passwords: passwords.for(
      actor.credential === 'none' ? getClientIp(request) : actor.userId,
      getLifetime(reply.raw),
    ),
    attempt: (account, verify) => limits.confirmPassword(request, actor.userId, account, verify),
  })

  /** Returns the write under the Idempotency-Key of a request; undefined without the header and for anonymous requests. */
  const readKeyedWrite = (
    { headers, method }: FastifyRequest,
    { actor, parent }: ResourceAddress,
    sent: unknown,
    id?: string,
  ) => {
    const header = headers['idempotency-key']
    if (typeof header !== 'string' || actor.credential === 'none') return undefined
    // One form of the path, whichever the client used.
    const path = `/api/v${representation.version}${addresses.getPath(parent)}${id === undefined ? '' : `/${id}`}`
    return idempotency.createKeyedWrite(header, { userId: actor.userId, method, path }, sent)
  }

  /** Runs the steps of a write and sends its response. Errors name the fields as they stood in the body. */
  const run = async <Found>(
    request: FastifyRequest,
    reply: FastifyReply,
    { actor }: ResourceAddress,
    { prefix }: ReadBody,
    writeSteps: WriteSteps<Found>,
  ): Promise<string> => {
    const response = await runWrite(writeSteps).catch((error) => {
      throw withPrefix(toSentNames(error), prefix)
    })
    outbox.publish()
    const { status, location, etag, body, replayed } = response
    const bytes = Buffer.byteLength(body)
    if (bytes >= BYTES_PER_COST) await countReplyBytes(request, actor, bytes)
    // In lower case: Fastify would convert other names for each reply.
    reply.code(status).header('etag', etag).header('cache-control', 'no-store')
    if (location !== null) reply.header('location', location)
    if (replayed) reply.header('idempotency-replayed', 'true')
    reply.header('content-type', 'application/json; charset=utf-8')
    return body
  }

  const create: Handler = async (request, reply) => {
    const address = addresses.read(request)
    const { actor, parent } = address
    const sent = readObject(request.body)
    const keyedWrite = readKeyedWrite(request, address, sent)
    if (address.hasQuery) refuseQuery(request)
    const body = representation.body(sent, resource.name, undefined)
    const fields = readers.create.read(body, { withheld: resource.withheld?.(actor) })
    addresses.ensureUuids(parent)
    const { form } = addressing.getAddress(request.raw)
    const respond = (row: Row) => {
      const location = `${publicUrl ?? ''}${form}${addresses.getPath(parent)}/${row.id}`
      return builder.buildResponse(request, reply, { status: 201, row, actor, location })
    }
    const getTools = () => createTools(request, reply, actor)
    const origin = getOrigin(actor, request.id)
    const write: Write = { actor, id: newId(), parent, fields, origin, keyedWrite, getTools, respond }
    return run(request, reply, address, body, await steps.create(write))
  }

  const createChange =
    (mode: 'replace' | 'update'): Handler =>
    async (request, reply) => {
      const address = addresses.read(request)
      const { actor, id, parent } = address
      const sent = readObject(request.body)
      // PUT needs no key: sent twice, it has the same effect.
      const keyedWrite = mode === 'update' ? readKeyedWrite(request, address, sent, id) : undefined
      if (address.hasQuery) refuseQuery(request)
      const body = representation.body(sent, resource.name, id)
      const known = resource.parent ? { id, [resource.parent.member]: parent } : { id }
      const reader = readers[mode]
      const fields = reader.read(body, { known })
      addresses.ensureUuids(id, parent)
      // Named one by one: a spread before other fields makes an object that V8 reads slowly, 5 % of a PATCH.
      const write: ChangingWrite = {
        actor,
        id,
        parent,
        mode,
        reader,
        fields,
        origin: getOrigin(actor, request.id),
        keyedWrite,
        checkPrecondition: readPrecondition(request, requireIfMatch, (row) => builder.getTag(request, row)),
        getTools: () => createTools(request, reply, actor),
        respond: (row) => builder.buildResponse(request, reply, { status: 200, row, actor, location: null }),
      }
      return run(request, reply, address, body, steps.change(write))
    }

  const remove: Handler = async (request, reply) => {
    const { actor, id, parent, hasQuery } = addresses.read(request)
    if (hasQuery) refuseQuery(request)
    addresses.ensureUuids(id, parent)
    await removeRow({
      actor,
      id,
      parent,
      origin: getOrigin(actor, request.id),
      checkPrecondition: readPrecondition(request, requireIfMatch, (row) => builder.getTag(request, row)),
    })
    outbox.publish()
    return reply.code(204).header('Cache-Control', 'no-store').send()
  }

  return {
    create: recordingWriter(database, create),
    replace: recordingWriter(database, createChange('replace')),
    update: recordingWriter(database, createChange('update')),
    remove: recordingWriter(database, remove),
  }
}
