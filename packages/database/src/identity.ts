/** The names under which the service presents itself, from that of the application. */
import { getApplication } from './application.ts'

const { name, title = name, clientPackage } = getApplication()
const snakeCase = name.replaceAll('-', '_')

export const identity = {
  /** The client of PostgreSQL and Redis, and the prefix of downloaded files. */
  name,
  /**
   * What runs a command in the folder of the application, for messages and help. The program of create-resource-api is a
   * development dependency, which a production installation and the image do not have.
   */
  program: process.env.NODE_ENV === 'production' ? 'node dist/src/cli.js' : 'npx resource-api',
  /** The title of pages, mails and OpenAPI documents. */
  title,
  /** The protection space in `WWW-Authenticate` (RFC 9110, section 11.5). */
  realm: name,
  /** The default of `JWT_ISSUER`. */
  issuer: name,
  /** The default of `JWT_AUDIENCE`. */
  audience: name,
  /** The `service.name` of traces. */
  tracing: name,
  /** The first part of the names of diagnostics channels. */
  channels: name,
  /** The first part of the names of metrics and span attributes that belong to no standard. */
  metrics: snakeCase,
  /** The npm package of the TypeScript client; undefined if the documents name none. */
  clientPackage,
  /** The environment variable with the API key of commands that call a server. */
  keyVariable: `${snakeCase.replace(/_api$/, '').toUpperCase()}_API_KEY`,
} as const

/** Returns the name of the diagnostics channel of an event `{area}:{event}`. */
export const getChannelName = (event: string) => `${identity.channels}:${event}`
