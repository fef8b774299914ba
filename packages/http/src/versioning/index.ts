/** The versions of the API, and the checks of a version's scope that precede authentication: method, Accept, sunset. */
import type { FastifyInstance, FastifyReply } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config/settings.ts'
import { apiError } from '../errors/index.ts'
import compression from '../http/compression.ts'
import contentType from '../http/content-type.ts'
import { addLinks } from '../http/links.ts'
import { answerOtherMethod } from '../http/method-not-allowed.ts'
import type { StreamType } from './accept.ts'
import type { Address, Addressing } from './addresses.ts'
import type { Representation } from './representation/types.ts'
import { createResourceWriter } from './resource-writer.ts'

export { createAddressing } from './addresses.ts'

interface Deprecation {
  /** The date of the deprecation, past or future (RFC 9745). */
  since: Date
  /** The date after which every response is 410 (RFC 8594). */
  sunset: Date
  /** The version that replaces this one. */
  successor: number
}

/** Returns whether the sunset of a version has passed. */
const isRetired = ({ sunset }: Deprecation): boolean => Date.now() >= sunset.getTime()

/** A version of the API. Setting `deprecated` is all that deprecating a version takes. */
export interface Version {
  representation: Representation
  deprecated?: Deprecation
}

/** Returns the numbers of the versions that are served now: those that are not retired. */
export const listServed = (all: readonly Version[]): number[] =>
  all.flatMap(({ representation, deprecated }) =>
    deprecated && isRetired(deprecated) ? [] : representation.version,
  )

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The streams that a list offers besides pages. */
    streams?: readonly StreamType[]
  }
  interface FastifyInstance {
    addressing: Addressing
  }
}

/** Encodes the characters that end a link's target (`<`, `>`) or that are not allowed in a header. */
const encodePath = (path: string) => path.replace(/[^\x21\x23-\x3b\x3d\x3f-\x7e]/g, encodeURIComponent)

/** Returns the same path in the successor version, in the form that the client used if that form names a version. */
const getSuccessorPath = ({ form, path }: Address, successor: number) =>
  `${/^(?:\/api)?(?=\/v)/.exec(form)?.[0] ?? '/api'}/v${successor}${encodePath(path)}`

/**
 * Adds the headers Deprecation, Sunset and Link to a response.
 * @throws ApiError 410 after the sunset date
 */
function announceDeprecation(
  deprecation: Deprecation,
  address: Address,
  reply: FastifyReply,
  publicUrl: string | undefined,
) {
  const { since, sunset, successor } = deprecation
  reply.header('Deprecation', `@${Math.floor(since.getTime() / 1000)}`)
  reply.header('Sunset', sunset.toUTCString())
  addLinks(reply, `<${publicUrl ?? ''}${getSuccessorPath(address, successor)}>; rel="successor-version"`)
  if (isRetired(deprecation)) throw apiError('VERSION_RETIRED')
}

type VersionOptions = Version & Pick<Config, 'COMPRESS' | 'PUBLIC_URL'>

/** Registered before the other hooks of a version: what it may answer is compressed, and precedes authentication. */
async function versionScope(app: FastifyInstance, options: VersionOptions) {
  const { deprecated, representation, PUBLIC_URL } = options
  app.decorate('resourceWriter', createResourceWriter(representation))
  await app.register(compression, options)
  app.addHook('onRoute', ({ config, url }) => {
    if (config?.streams) app.addressing.addStreams(url.slice(app.prefix.length), config.streams)
  })
  app.addHook('onRequest', (request, reply, done) => {
    const { allow } = request.routeOptions.config
    if (allow !== undefined) {
      answerOtherMethod(reply, request.method, allow)
      return
    }
    const address = app.addressing.getAddress(request.raw)
    if (!address.acceptable) throw apiError('NOT_ACCEPTABLE')
    if (deprecated) announceDeprecation(deprecated, address, reply, PUBLIC_URL)
    done()
  })
  await app.register(contentType)
}

export default fp(versionScope, { name: 'version-scope', dependencies: ['response-headers'] })
