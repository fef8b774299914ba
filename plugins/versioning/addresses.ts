/** Addresses: four forms of each, onto the one where its route stands. */
import type { IncomingMessage } from 'node:http'
import { createNegotiation } from './accept.ts'
import type { Representation } from './representation/types.ts'

const UNVERSIONED = /^\/(?:docs|openapi|livez|readyz|metrics|\.well-known)(?:\/|$)/

/** Where a request keeps its address: looked at often, and a map beside it would cost the garbage collector more. */
const ADDRESS = Symbol('address')

declare module 'node:http' {
  interface IncomingMessage {
    [ADDRESS]?: Address
  }
}

export const VARY = 'Accept, Authorization, X-API-Key'

/** How a request was addressed. */
export interface Address {
  /** '/api/v1', '/v1', '/api' or '': what stands before the path in the form that the client used. */
  form: string
  /** The rest of the path, without a trailing slash. */
  path: string
  /** Where the routes stand, or, for what no version serves, the path as it came. */
  route: string
  query: string
  /** Whether a version is named or chosen: then the reply tells which. */
  isVersioned: boolean
  /** That version's; else the default one's, for errors. */
  representation: Representation
  /** Whether the client prefers the vendor's media type. */
  vendor: boolean
  /** Whether Accept leaves something to serve. */
  acceptable: boolean
}

/** The headers that name the version of a reply, for replies that pass no hook. */
export const versionHeaders = ({ isVersioned, representation }: Address): Record<string, string> =>
  isVersioned ? { 'API-Version': String(representation.version), Vary: VARY } : {}

/** The path of a request's target, which a proxy's client may send with scheme and host. */
function splitTarget(url: string): { path: string; query: string } {
  const target = url.startsWith('/') ? url : url.replace(/^https?:\/\/[^/?#]*/i, '')
  const mark = target.indexOf('?')
  return mark === -1
    ? { path: target, query: '' }
    : { path: target.slice(0, mark), query: target.slice(mark) }
}

/** Encoded or not, an unreserved character is the same (RFC 3986, section 6.2.2.2): `/%61pi` is `/api`. */
const normalize = (path: string) =>
  path.includes('%')
    ? path.replace(/%(?:2[DE]|3\d|4[1-9A-F]|5[\dAF]|6[1-9A-F]|7[\dAE])/gi, decodeURIComponent)
    : path

/** The addressing of one app: its versions, and which of them serves a path without one. */
export function createAddressing(all: readonly { representation: Representation }[], defaultVersion: number) {
  const representations = all.map(({ representation }) => representation)
  const fallback = representations.find(({ version }) => version === defaultVersion)
  if (!fallback) throw new Error(`There is no version ${defaultVersion} to be the default`)
  const others = representations.filter((representation) => representation !== fallback)
  const byName = new Map(
    representations.map((representation) => [
      String(representation.version),
      { representation, negotiate: createNegotiation([representation.version]) },
    ]),
  )
  const negotiateAny = createNegotiation([fallback, ...others].map(({ version }) => version))

  const parse = (url: string, accept: string | undefined): Address => {
    const { path: sent, query } = splitTarget(url)
    const whole = normalize(sent)
    const unversioned: Address = {
      form: '',
      path: whole,
      route: whole === '' ? '/' : whole,
      query,
      isVersioned: false,
      representation: fallback,
      vendor: false,
      acceptable: true,
    }
    if (whole === '' || whole === '/' || UNVERSIONED.test(whole)) return unversioned

    const trimmed = whole.endsWith('/') ? whole.slice(0, -1) : whole
    const [, form = '', named, path = ''] = /^((?:\/api)?(?:\/v(\d[^/]*))?)(\/.*)?$/.exec(trimmed) ?? []
    const inPath = named === undefined ? undefined : byName.get(named)
    // The router forgives a trailing slash as well; two are none.
    const isPath = path !== '' && !path.endsWith('/')
    if ((named !== undefined && !inPath) || !isPath) {
      const representation = inPath?.representation ?? fallback
      return { ...unversioned, representation, isVersioned: inPath !== undefined }
    }

    const negotiated = (inPath?.negotiate ?? negotiateAny)(accept)
    const representation =
      inPath?.representation ?? byName.get(String(negotiated?.version))?.representation ?? fallback
    return {
      form,
      path,
      route: `/api/v${representation.version}${path}`,
      query,
      isVersioned: true,
      representation,
      vendor: negotiated?.vendor ?? false,
      acceptable: negotiated !== undefined,
    }
  }

  const of = (raw: IncomingMessage): Address => {
    raw[ADDRESS] ??= parse(raw.url ?? '/', raw.headers.accept)
    return raw[ADDRESS]
  }

  return {
    of,
    /** For Fastify's `rewriteUrl`: the one place where a route of a version stands. */
    rewriteUrl(raw: IncomingMessage): string {
      const { route, query } = of(raw)
      return route + query
    },
    fallback,
  }
}

export type Addressing = ReturnType<typeof createAddressing>
