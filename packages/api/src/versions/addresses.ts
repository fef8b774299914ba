/** Maps the four forms of an address (`/users`, `/v1/users`, `/api/users`, `/api/v1/users`) to the route of a version. */
import type { IncomingMessage } from 'node:http'
import { createNegotiation, type StreamType } from './accept.ts'
import type { Representation } from './representation/types.ts'

const UNVERSIONED =
  /^\/(?:docs|openapi|account|mcp|livez|readyz|metrics|favicon\.ico|llms\.txt|\.well-known)(?:\/|$)/

/** The version in a path, known or not. */
const VERSION_PREFIX = /^(?:\/api)?\/v(\d[^/]*)/

/** Kept from before Fastify replaces `url` by the result of `rewriteUrl`. */
const ADDRESS = Symbol('address')

declare module 'node:http' {
  interface IncomingMessage {
    [ADDRESS]?: Address
  }
}

/** The Vary header of every versioned response. */
export const VARY = 'Accept, Authorization, X-API-Key'

/** The parsed address of a request. */
export interface Address {
  /** The prefix that the client used: '/api/v1', '/v1', '/api' or ''. */
  form: string
  /** The rest of the path, without a trailing slash. */
  path: string
  /** The path of the route: '/api/v{n}' and `path`, or the path as sent if it is not versioned. */
  route: string
  /** The query string with its '?', or ''. */
  query: string
  /** Whether a version serves the address, and is named in the response's `API-Version`. */
  isVersioned: boolean
  /** The representation of that version, or of the default version, whose envelope errors then have. */
  representation: Representation
  /** Whether the client prefers the vendor media type to `application/json`. */
  vendor: boolean
  /** The stream that the client prefers to a page, if it does. */
  stream: StreamType | undefined
  /** Whether the Accept header allows an available representation. If not, the response is 406. */
  acceptable: boolean
}

/** Decodes percent-encoded unreserved characters (RFC 3986, section 6.2.2.2): `/%61pi` is `/api`. */
const normalize = (path: string) =>
  path.replace(/%(?:2[DE]|3\d|4[1-9A-F]|5[\dAF]|6[1-9A-F]|7[\dAE])/gi, decodeURIComponent)

/** Creates the functions that note which streams GET of a path below the version offers, and that find them. */
function createStreams() {
  const routes = new Map<string, { segments: readonly string[]; streams: readonly StreamType[] }>()
  return {
    addStreams(path: string, streams: readonly StreamType[]): void {
      routes.set(path, { segments: path.split('/'), streams })
    },
    findStreams(path: string): readonly StreamType[] {
      const sent = path.split('/')
      const isSame = (segment: string, i: number) =>
        segment.startsWith(':') ? sent[i] !== '' : segment === sent[i]
      const found = [...routes.values()].find(
        ({ segments }) => segments.length === sent.length && segments.every(isSame),
      )
      return found?.streams ?? []
    },
  }
}

/**
 * Creates the functions that read and rewrite the addresses of one app's requests.
 * @param defaultVersion serves a path without a version, unless the Accept header names another one
 */
export function createAddressing(
  versions: readonly { representation: Representation }[],
  defaultVersion: number,
) {
  const { addStreams, findStreams } = createStreams()
  const fallback = versions.find(
    ({ representation }) => representation.version === defaultVersion,
  )?.representation
  if (!fallback) throw new Error(`The default version ${defaultVersion} does not exist`)
  const versionsByName = new Map(
    versions.map(({ representation }) => [
      String(representation.version),
      { representation, negotiate: createNegotiation([representation.version]) },
    ]),
  )
  const others = versions.filter(({ representation }) => representation !== fallback)
  const negotiateAny = createNegotiation([
    defaultVersion,
    ...others.map(({ representation }) => representation.version),
  ])

  const parse = ({ url = '/', method, headers: { accept } }: IncomingMessage): Address => {
    // The target includes scheme and host if the client addresses a proxy (RFC 9112, section 3.2.2).
    const target = url.startsWith('/') ? url : url.replace(/^https?:\/\/[^/?#]*/i, '')
    const mark = target.indexOf('?')
    const sent = mark === -1 ? target : target.slice(0, mark)
    const query = mark === -1 ? '' : target.slice(mark)
    const whole = sent.includes('%') ? normalize(sent) : sent
    const unversioned: Address = {
      form: '',
      path: whole,
      route: whole === '' ? '/' : whole,
      query,
      isVersioned: false,
      representation: fallback,
      vendor: false,
      stream: undefined,
      acceptable: true,
    }
    if (whole === '' || whole === '/' || UNVERSIONED.test(whole)) return unversioned

    const trimmed = whole.endsWith('/') ? whole.slice(0, -1) : whole
    const [, form = '', named, path = ''] = /^((?:\/api)?(?:\/v(\d[^/]*))?)(\/.*)?$/.exec(trimmed) ?? []
    const inPath = named === undefined ? undefined : versionsByName.get(named)
    // One trailing slash is ignored, as by the router; a path with two is unknown.
    const isKnownForm = path !== '' && !path.endsWith('/')
    if ((named !== undefined && !inPath) || !isKnownForm) {
      const representation = inPath?.representation ?? fallback
      return { ...unversioned, representation, isVersioned: inPath !== undefined }
    }

    const negotiated = (inPath?.negotiate ?? negotiateAny)(accept, () =>
      method === 'GET' || method === 'HEAD' ? findStreams(path) : [],
    )
    const representation =
      inPath?.representation ?? versionsByName.get(String(negotiated?.version))?.representation ?? fallback
    return {
      form,
      path,
      route: `/api/v${representation.version}${path}`,
      query,
      isVersioned: true,
      representation,
      vendor: negotiated?.vendor ?? false,
      stream: negotiated?.stream,
      acceptable: negotiated !== undefined,
    }
  }

  const getAddress = (raw: IncomingMessage): Address => {
    raw[ADDRESS] ??= parse(raw)
    return raw[ADDRESS]
  }

  return {
    /** Returns the address of a request, parsed once. */
    getAddress,
    /** Notes the streams that a list offers besides pages. @param path that of its route, below the version */
    addStreams,
    /** Fastify's `rewriteUrl` option: returns the URL of the route. */
    rewriteUrl(raw: IncomingMessage): string {
      const { route, query } = getAddress(raw)
      return route + query
    },
    /** Returns the message for a path that names a version which does not exist; undefined for other paths. */
    describeVersion(path: string): string | undefined {
      const [, named = ''] = VERSION_PREFIX.exec(path) ?? []
      if (named === '' || versionsByName.has(named)) return undefined
      const which = /^\d{1,9}$/.test(named) ? `version ${named}` : 'such version'
      return `There is no ${which}; supported: ${[...versionsByName.keys()].join(', ')}`
    },
    /** The representation of the default version. */
    fallback,
  }
}

export type Addressing = ReturnType<typeof createAddressing>
