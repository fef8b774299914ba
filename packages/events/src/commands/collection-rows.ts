/** What the commands `export` and `import` share: the formats of rows, a client, and errors that name fields. */

import { readServerOptions, type ServerOptions, UsageError } from '@resource-api/cli'
import { ApiError, createClient, NetworkError } from '@resource-api/client'
import { getErrorCode } from '@resource-api/database'

export const FORMATS = ['ndjson', 'csv'] as const
export type Format = (typeof FORMATS)[number]

export const COLLECTION_HELP = 'The name of a collection, such as users, or a path such as users/me/posts'

/** Returns a client, and the path of a collection. @throws UsageError */
export function openCollection(collection: string, server: ServerOptions) {
  const options = readServerOptions(server)
  if (!/^[a-z0-9-]+(\/[\w-]+\/[a-z0-9-]+)?$/.test(collection))
    throw new UsageError('The collection must be a name such as users, or a path such as users/me/posts')
  return {
    client: createClient(options),
    path: `/api/v1/${collection}` as const,
    baseUrl: options.baseUrl,
  }
}

/** Returns the reason of a lost connection, which `fetch` hides in the cause. */
export function getReason(error: Error): string {
  let reason: unknown = error
  while (reason instanceof Error && reason.cause instanceof Error) reason = reason.cause
  // An error for several addresses has no message.
  return reason instanceof Error ? reason.message || (getErrorCode(reason) ?? reason.name) : error.message
}

/** Returns an error of the API with the fields that it names, a line each, or one that names the address without a response. */
export function explain(error: unknown, baseUrl: string): unknown {
  if (error instanceof NetworkError)
    return new Error(`${error.message} (${baseUrl}${error.cause ? `: ${getReason(error)}` : ''})`)
  return error instanceof ApiError && error.fields.length > 0
    ? new Error(error.fields.map(({ field, message }) => `${field} ${message}`).join('\n'), { cause: error })
    : error
}
