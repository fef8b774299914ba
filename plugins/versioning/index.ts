/** The versions of the API, and the checks of a version's scope that precede authentication: method, Accept, sunset. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from '../errors/index.ts'
import { answerOtherMethod } from '../http/method-not-allowed.ts'
import type { Addressing } from './addresses.ts'
import { announceDeprecation, type Deprecation, isRetired } from './deprecation.ts'
import type { Representation } from './representation/types.ts'
import { v1 } from './representation/v1.ts'
import { v2 } from './representation/v2.ts'

export { createAddressing } from './addresses.ts'

/** A version of the API. Setting `deprecated` is all that deprecating a version takes. */
export interface Version {
  representation: Representation
  deprecated?: Deprecation
}

export const versions: readonly Version[] = [{ representation: v1 }, { representation: v2 }]

/** Returns the numbers of the versions that are served now: those that are not retired. */
export const listServed = (all: readonly Version[]): number[] =>
  all.flatMap(({ representation, deprecated }) =>
    deprecated && isRetired(deprecated) ? [] : representation.version,
  )

declare module 'fastify' {
  interface FastifyInstance {
    addressing: Addressing
  }
}

interface VersionOptions {
  version: Version
  publicUrl: string | undefined
}

async function versionScope(app: FastifyInstance, { version, publicUrl }: VersionOptions) {
  app.addHook('onRequest', (request, reply, done) => {
    const { allow } = request.routeOptions.config
    if (allow !== undefined) {
      answerOtherMethod(reply, request.method, allow)
      return
    }
    const address = app.addressing.getAddress(request.raw)
    if (!address.acceptable) throw apiError('NOT_ACCEPTABLE')
    if (version.deprecated) announceDeprecation(version.deprecated, address, reply, publicUrl)
    done()
  })
}

export default fp(versionScope, { name: 'version-scope', dependencies: ['response-headers'] })
