/** How the HTTP server waits, refuses and encrypts: the options that `buildApp` spreads into `fastify()`. */
import type { IncomingMessage, Server } from 'node:http'
import type { ServerOptions } from 'node:https'
import proxyAddress from '@fastify/proxy-addr'
import type { FastifyHttpOptions } from 'fastify'
import { readPem } from './config/pem.ts'
import type { Config } from './config.ts'

/** What Node's parser holds a client to; FACTS: without them slow headers stay open for 90 s. */
const PARSER = {
  headersTimeout: 5_000,
  connectionsCheckingInterval: 1_000,
  // The 16 KiB of fields beside a long address: plugins/http/header-validation.ts and plugins/versioning/response-headers.ts hold each to its own.
  maxHeaderSize: 32_768,
  // Node's own refusal has no body; plugins/http/header-validation.ts has one.
  requireHostHeader: false,
}

/** Milliseconds for what comes before HTTP; Node itself waits two minutes, and no other limit knows of such a socket. */
const HANDSHAKE = 5_000

type TrustProxy = boolean | string[] | ((address: string, hop: number) => boolean)

/** Fastify trusts nobody for a bare number, so hops are counted here: right where only proxies reach the port. */
function trustProxy(text: string | undefined): TrustProxy {
  if (text === undefined) return false
  if (text === 'true') return true
  if (/^\d+$/.test(text)) {
    const hops = Number(text)
    return (_address, hop) => hop < hops
  }
  return text.split(',').map((part) => part.trim())
}

/** Returns a function that finds a client's address as Fastify's `request.ip` does, for requests that Fastify never sees. */
export function createAddressReader({ TRUST_PROXY }: Config): (request: IncomingMessage) => string {
  const trust = trustProxy(TRUST_PROXY)
  if (trust === false) return ({ socket }) => socket.remoteAddress ?? ''
  const isTrusted =
    trust === true ? () => true : typeof trust === 'function' ? trust : proxyAddress.compile(trust)
  return (request) => proxyAddress(request, isTrusted)
}

/**
 * Whether plain HTTP is refused: in production behind a proxy, which says how a request came. Elsewhere there is often
 * none that ends TLS, and without `TRUST_PROXY` nothing that the client cannot write itself would tell.
 */
export const behindProxy = ({ NODE_ENV, TRUST_PROXY, INSECURE_HTTP }: Config): boolean =>
  NODE_ENV === 'production' && TRUST_PROXY !== undefined && !INSECURE_HTTP

function tls({ TLS_KEY, TLS_CERT }: Config): ServerOptions | undefined {
  if (TLS_KEY === undefined || TLS_CERT === undefined) return undefined
  const pair = { key: readPem(TLS_KEY), cert: readPem(TLS_CERT) }
  return { ...PARSER, ...pair, minVersion: 'TLSv1.2', handshakeTimeout: HANDSHAKE }
}

type HttpOptions = FastifyHttpOptions<Server> & { https?: ServerOptions }

/** The options of one server, plain or with TLS. */
export function serverOptions(config: Config): HttpOptions {
  const https = tls(config)
  return {
    http: PARSER,
    ...(https && { https }),
    bodyLimit: config.BODY_LIMIT,
    trustProxy: trustProxy(config.TRUST_PROXY),
    requestTimeout: 10_000,
    keepAliveTimeout: 5_000,
    // In whatever state: a socket on which nothing moves. plugins/http/timeouts.ts ends those on which too little does.
    connectionTimeout: 30_000,
    // A request that arrives while the server closes is still answered: see plugins/operations/shutdown.ts.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
  }
}
