/** The names under which the service presents itself. */
const NAME = 'resource-api'

export const identity = {
  /** The program on the command line, the client of PostgreSQL and Redis, and the prefix of downloaded files. */
  name: NAME,
  /** The title of pages and OpenAPI documents. */
  title: NAME,
  /** The protection space in `WWW-Authenticate` (RFC 9110, section 11.5). */
  realm: NAME,
  /** The default of `JWT_ISSUER`. */
  issuer: NAME,
  /** The default of `JWT_AUDIENCE`. */
  audience: NAME,
  /** The `service.name` of traces. */
  tracing: NAME,
  /** The first part of the names of diagnostics channels. */
  channels: NAME,
  /** The first part of the names of metrics and span attributes that belong to no standard. */
  metrics: 'resource_api',
  /** The npm package of the TypeScript client. */
  clientPackage: '@resource-api/client',
  /** The environment variable with the API key of commands that call a server. */
  keyVariable: 'RESOURCE_API_KEY',
} as const

/** Returns the name of the diagnostics channel of an event `{area}:{event}`. */
export const getChannelName = (event: string) => `${identity.channels}:${event}`
