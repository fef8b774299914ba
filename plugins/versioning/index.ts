/** The versions of the API, and the scope of each: what is asked of a request before anybody is asked who calls. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from '../errors/index.ts'
import { answerOther } from '../http/method-not-allowed.ts'
import { configOf } from '../http/route-config.ts'
import type { Addressing } from './addresses.ts'
import { announce, type Deprecation } from './deprecation.ts'
import type { Representation } from './representation/types.ts'
import { v1 } from './representation/v1.ts'
import { v2 } from './representation/v2.ts'

export { createAddressing } from './addresses.ts'

/** A version of the API. To deprecate one, give it its two dates here; nothing else needs to change. */
export interface Version {
  representation: Representation
  deprecated?: Deprecation
}

export const versions: readonly Version[] = [{ representation: v1 }, { representation: v2 }]

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
    const { allow } = configOf(request)
    if (allow !== undefined) {
      answerOther(reply, request.method, allow)
      return
    }
    const address = app.addressing.of(request.raw)
    if (!address.acceptable) throw apiError('NOT_ACCEPTABLE')
    if (version.deprecated) announce(version.deprecated, address, reply, publicUrl)
    done()
  })
}

export default fp(versionScope, { name: 'version-scope', dependencies: ['addressing'] })
