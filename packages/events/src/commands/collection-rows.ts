/** What the commands `export` and `import` share: the formats of rows, a client, and errors that name fields. */

import { ApiError, createClient } from '@resource-api/client'
import { readServerOptions, type ServerOptions, UsageError } from '@resource-api/http/commands'

export const FORMATS = ['ndjson', 'csv'] as const
export type Format = (typeof FORMATS)[number]

export const COLLECTION_HELP = 'The name of a collection, such as users, or a path such as users/me/posts'

/** Returns a client, and the path of a collection. @throws UsageError */
export function openCollection(collection: string, server: ServerOptions) {
  const options = readServerOptions(server)
  if (!/^[a-z0-9-]+(\/[\w-]+\/[a-z0-9-]+)?$/.test(collection))
    throw new UsageError('The collection must be a name such as users, or a path such as users/me/posts')
  return { client: createClient(options), path: `/api/v1/${collection}` as const }
}

/** Returns an error of the API with the fields that it names, a line each. */
export const explain = (error: unknown): unknown =>
  error instanceof ApiError && error.fields.length > 0
    ? new Error(error.fields.map(({ field, message }) => `${field} ${message}`).join('\n'), { cause: error })
    : error
