/** Addresses and Accept: which version serves a request, in which of the four forms it was asked, in which media type. */
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyReply } from 'fastify'
import fp from 'fastify-plugin'
import Negotiator from 'negotiator'
import { apiError } from './errors.ts'
import type { Representation } from './representation/types.ts'
import { v1 } from './representation/v1.ts'
import { v2 } from './representation/v2.ts'

export type { Representation } from './representation/types.ts'

/** A version of the API. To deprecate one, give it its two dates here; nothing else needs to change. */
export interface Version {
  representation: Representation
  deprecated?: {
    /** When it was, or will be, deprecated (RFC 9745). */
    since: Date
    /** When it ends (RFC 8594): from then on, 410. */
    sunset: Date
    /** The version to go to. */
    successor: number
  }
}

export const versions: readonly Version[] = [{ representation: v1 }, { representation: v2 }]

const VENDOR = 'application/vnd.api+json'
const UNVERSIONED = /^\/(?:docs|openapi|livez|readyz|metrics|\.well-known)(?:\/|$)/

/** How a request was addressed. */
export interface Address {
  /** '/api/v1', '/v1', '/api' or '': what stands before the path in the form that the client used. */
  form: string
  /** The rest of the path, without a trailing slash. */
  path: string
  /** Where the routes stand, or, for what no version serves, the path as it came. */
  route: string
  query: string
  representation: Representation
  /** Whether the client prefers the vendor's media type. */
  vendor: boolean
  /** Whether Accept leaves nothing to serve. */
  acceptable: boolean
}

interface Negotiated {
  version: number
  vendor: boolean
}

/** The addressing of one app: its versions, and which of them serves a path without one. */
export function createAddressing(all: readonly Version[], defaultVersion: number) {
  const byNumber = new Map(all.map((version) => [version.representation.version, version.representation]))
  const fallback = byNumber.get(defaultVersion)
  if (!fallback) throw new Error(`There is no version ${defaultVersion} to be the default`)
  const addresses = new WeakMap<IncomingMessage, Address>()
  const preferred = [
    fallback,
    ...[...byNumber.values()].filter((representation) => representation !== fallback),
  ]

  // The rule is Negotiator's own: the highest q, then the most specific range, then the first.
  const negotiate = (
    accept: string | undefined,
    candidates: readonly Representation[],
  ): Negotiated | undefined => {
    const first = candidates[0]
    if (!first) return undefined
    if (accept === undefined || accept === '*/*' || accept === 'application/json') {
      return { version: first.version, vendor: false }
    }
    const offers = new Map<string, Negotiated>([
      ['application/json', { version: first.version, vendor: false }],
      ['application/json;charset=utf-8', { version: first.version, vendor: false }],
      ...candidates.map(({ version }): [string, Negotiated] => [
        `${VENDOR};version=${version}`,
        { version, vendor: true },
      ]),
    ])
    const best = new Negotiator({ headers: { accept } }).mediaTypes([...offers.keys()])[0]
    return best === undefined ? undefined : offers.get(best)
  }

  const parse = (url: string, accept: string | undefined): Address => {
    const target = url.startsWith('/') ? url : url.replace(/^https?:\/\/[^/?#]*/i, '')
    const mark = target.indexOf('?')
    const fullPath = mark === -1 ? target : target.slice(0, mark)
    const query = mark === -1 ? '' : target.slice(mark)
    const trimmed = fullPath.length > 1 && fullPath.endsWith('/') ? fullPath.slice(0, -1) : fullPath
    const unknown = { form: '', path: trimmed, route: trimmed || '/', query, vendor: false, acceptable: true }
    if (UNVERSIONED.test(trimmed)) return { ...unknown, representation: fallback }

    const [, form = '', api = '', named, path = ''] =
      /^((\/api)?(?:\/v(\d[^/]*))?)(\/.*)?$/.exec(trimmed) ?? []
    const inPath =
      named === undefined ? undefined : byNumber.get(/^[1-9]\d*$/.test(named) ? Number(named) : 0)
    if (named !== undefined && !inPath) return { ...unknown, route: '/', representation: fallback }
    if (path === '' || (api === '' && path.startsWith('/api/'))) {
      return { ...unknown, representation: inPath ?? fallback }
    }

    const negotiated = negotiate(accept, inPath ? [inPath] : preferred)
    const representation = inPath ?? byNumber.get(negotiated?.version ?? defaultVersion) ?? fallback
    return {
      form,
      path,
      route: `/api/v${representation.version}${path}`,
      query,
      representation,
      vendor: negotiated?.vendor ?? false,
      acceptable: negotiated !== undefined,
    }
  }

  return {
    /** For Fastify's `rewriteUrl`: the one place where a route of a version stands. */
    rewriteUrl(raw: IncomingMessage): string {
      const address = parse(raw.url ?? '/', raw.headers.accept)
      addresses.set(raw, address)
      return address.route + address.query
    },
    of: (raw: IncomingMessage): Address => {
      const address = addresses.get(raw)
      if (address) return address
      const parsed = parse(raw.url ?? '/', raw.headers.accept)
      addresses.set(raw, parsed)
      return parsed
    },
    fallback,
  }
}

export type Addressing = ReturnType<typeof createAddressing>

declare module 'fastify' {
  interface FastifyInstance {
    addressing: Addressing
  }
}

const epoch = (date: Date) => Math.floor(date.getTime() / 1000)

/** The headers of a deprecated version, the 410 of a retired one. */
function announce(version: Version, address: Address, reply: FastifyReply) {
  const { deprecated } = version
  if (!deprecated) return
  reply.header('Deprecation', `@${epoch(deprecated.since)}`)
  reply.header('Sunset', deprecated.sunset.toUTCString())
  reply.header('Link', `</api/v${deprecated.successor}${address.path}>; rel="successor-version"`)
  if (Date.now() >= deprecated.sunset.getTime()) throw apiError('VERSION_RETIRED')
}

/** One version's scope: what every reply in it carries, and what is asked of Accept. */
async function versionScope(app: FastifyInstance, version: Version) {
  const { representation } = version
  const vendorType = `${VENDOR};version=${representation.version}`

  app.addHook('onRequest', async (request, reply) => {
    reply.header('API-Version', representation.version)
    reply.header('Vary', 'Accept, Authorization, X-API-Key')
    const { allow } = request.routeOptions.config
    if (allow !== undefined) {
      reply.header('Allow', allow)
      if (request.method !== 'OPTIONS') throw apiError('METHOD_NOT_ALLOWED')
      return reply.code(204).send()
    }
    const address = app.addressing.of(request.raw)
    if (!address.acceptable) throw apiError('NOT_ACCEPTABLE')
    announce(version, address, reply)
  })

  // In `onSend`, since Fastify adds a charset to what was set before, and this type has none.
  app.addHook('onSend', async (request, reply, payload) => {
    if (payload && app.addressing.of(request.raw).vendor) reply.header('Content-Type', vendorType)
    return payload
  })
}

export default fp(versionScope, { name: 'version-scope', dependencies: ['errors'] })
