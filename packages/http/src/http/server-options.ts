/** The options of `fastify()`: the HTTP server with its timeouts, size limits, TLS and proxy trust, logs and compilers. */
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { createServer as createTlsServer, type ServerOptions } from 'node:https'
import proxyAddress from '@fastify/proxy-addr'
import type { FastifyHttpOptions, FastifyInstance } from 'fastify'
import type { Serve } from '../admission/index.ts'
import { readPem } from '../config/keys.ts'
import type { Config } from '../config/settings.ts'
import { createLoggingOptions, type LoggingOptions } from '../observability/logging/index.ts'
import { serializerOptions } from '../validation/formats.ts'
import { createSerializerFactory, isCheckingSchemas } from '../validation/index.ts'
import type { Addressing } from '../versioning/addresses.ts'
import { type IsTrusted, normalizeForwarded } from './forwarded.ts'
import { createClientErrorHandler } from './parser-errors.ts'
import { frameworkErrors } from './responses-without-hooks.ts'

/** Options of Node's HTTP server. Without them a client may take 90 s (measured) to send its headers. */
const SERVER_OPTIONS = {
  headersTimeout: 5_000,
  requestTimeout: 10_000,
  keepAliveTimeout: 5_000,
  connectionsCheckingInterval: 1_000,
  // 16 KiB of header fields plus a long URL: request-validation.ts limits each of the two.
  maxHeaderSize: 32_768,
  // Node's own 400 has no body; the one of request-validation.ts has.
  requireHostHeader: false,
}

/** Ends a socket that is idle in any state. timeouts.ts ends those that are slow. */
const IDLE_TIMEOUT_MS = 30_000

/** The TLS handshake. Node's default is two minutes, and the other limits do not see a socket before it is complete. */
const HANDSHAKE_TIMEOUT_MS = 5_000

/**
 * Node.js refuses a header section longer than this, so no path parameter is longer. Fastify's own limit would answer
 * without running any hook, and so without the headers that hooks add.
 */
const MAX_PARAM_LENGTH = SERVER_OPTIONS.maxHeaderSize

type TrustProxy = boolean | string[] | ((address: string, hop: number) => boolean)

/** Fastify trusts no proxy for a bare number, so hops are counted here. Clients must not reach the port directly. */
function parseTrustProxy(text: string | undefined): TrustProxy {
  if (text === undefined) return false
  if (text === 'true') return true
  if (/^\d+$/.test(text)) {
    const hops = Number(text)
    return (_address, hop) => hop < hops
  }
  return text.split(',').map((part) => part.trim())
}

/** Returns undefined if no proxy is trusted. */
function createIsTrusted(trust: TrustProxy): IsTrusted | undefined {
  if (trust === false) return undefined
  if (trust === true) return () => true
  return typeof trust === 'function' ? trust : proxyAddress.compile(trust)
}

/**
 * Returns a function that finds a client's address as Fastify's `request.ip` does, for requests outside Fastify. The
 * listener of the server has normalized their headers.
 */
export function createAddressReader({
  TRUST_PROXY,
}: Pick<Config, 'TRUST_PROXY'>): (request: IncomingMessage) => string {
  const isTrusted = createIsTrusted(parseTrustProxy(TRUST_PROXY))
  if (isTrusted === undefined) return ({ socket }) => socket.remoteAddress ?? ''
  return (request) => proxyAddress(request, isTrusted)
}

function getTlsOptions({
  TLS_KEY,
  TLS_CERT,
}: Pick<Config, 'TLS_KEY' | 'TLS_CERT'>): ServerOptions | undefined {
  if (TLS_KEY === undefined || TLS_CERT === undefined) return undefined
  return {
    ...SERVER_OPTIONS,
    key: readPem(TLS_KEY),
    cert: readPem(TLS_CERT),
    minVersion: 'TLSv1.2',
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
  }
}

type ServerConfig = Pick<Config, 'BODY_LIMIT' | 'TLS_CERT' | 'TLS_KEY' | 'TRUST_PROXY'>

/**
 * Returns the options of one server, with TLS if a key and a certificate are configured.
 * @param createListener creates the server's request listener from Fastify's own
 */
export function getServerOptions(config: ServerConfig, createListener: (serve: Serve) => Serve) {
  const https = getTlsOptions(config)
  const trustProxy = parseTrustProxy(config.TRUST_PROXY)
  const isTrusted = createIsTrusted(trustProxy)

  const serverFactory = (serve: Serve): Server => {
    const admit = createListener(serve)
    const listener: Serve = isTrusted
      ? (request, response) => {
          normalizeForwarded(request, isTrusted)
          admit(request, response)
        }
      : admit
    const server = https ? createTlsServer(https, listener) : createServer(SERVER_OPTIONS, listener)
    server.timeout = IDLE_TIMEOUT_MS
    return server
  }

  return {
    serverFactory,
    // Fastify itself uses only its presence, for the scheme of the server's address.
    ...(https && { https }),
    bodyLimit: config.BODY_LIMIT,
    trustProxy,
    // A request that arrives during a shutdown is still answered: see operations/shutdown.ts.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
  } satisfies FastifyHttpOptions<Server> & { https?: ServerOptions }
}

/**
 * Returns all options of `fastify()`.
 * @param getApp returns the instance that they create, whose admission listens to the requests of the server
 */
export const createServerOptions = async (
  config: ServerConfig & LoggingOptions,
  addressing: Addressing,
  getApp: () => FastifyInstance,
) => ({
  ...getServerOptions(config, (serve) => (request, response) => getApp().admit(request, response, serve)),
  ...(await createLoggingOptions(config)),
  rewriteUrl: addressing.rewriteUrl,
  clientErrorHandler: createClientErrorHandler(getApp),
  frameworkErrors,
  routerOptions: { ignoreTrailingSlash: true, maxParamLength: MAX_PARAM_LENGTH },
  serializerOpts: serializerOptions,
  schemaController: {
    compilersFactory: { buildSerializer: createSerializerFactory(isCheckingSchemas(config)) },
  },
})
