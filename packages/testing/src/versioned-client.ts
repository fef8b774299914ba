/** Clients of one version that read resources as flat objects, so that one test covers both versions. */
import type { Client, Json, Reply } from './client.ts'

export const VERSIONS = [1, 2] as const
export type VersionNumber = (typeof VERSIONS)[number]

interface Answer extends Reply {
  /** The resource or the list, as flat objects. */
  data: Json
  code: string | undefined
  message: string
  /** The violations as `field CODE`, in v2 without the prefix of the typed envelope. */
  violations: string[]
  etag: string
}

export interface VersionedClient {
  version: VersionNumber
  get(path: string, headers?: Record<string, string>): Promise<Answer>
  post(path: string, members: unknown, headers?: Record<string, string>): Promise<Answer>
  put(path: string, members: unknown, headers?: Record<string, string>): Promise<Answer>
  patch(path: string, members: unknown, headers?: Record<string, string>): Promise<Answer>
  delete(path: string, headers?: Record<string, string>): Promise<Answer>
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns the collection of a path: `posts` for `/users/1/posts/2`. */
const getType = (path: string) =>
  path
    .split('/')
    .slice(1)
    .filter((_, i) => i % 2 === 0)
    .at(-1)

const flat = (resource: Json): Json =>
  Array.isArray(resource)
    ? resource.map(flat)
    : isObject(resource?.attributes)
      ? { id: resource.id, ...resource.attributes, ...resource.relationships }
      : resource

const PREFIX = 'data.attributes.'

const answer = (reply: Reply): Answer => {
  const error = reply.body?.error
  const violations: Json[] = error?.details ?? error?.errors ?? []
  return {
    ...reply,
    data: flat(reply.body?.data),
    code: error?.code,
    message: error?.message ?? '',
    violations: violations.map(({ field, code }) => `${field.replace(PREFIX, '')} ${code}`).sort(),
    etag: reply.headers.get('etag') ?? '',
  }
}

/** Creates a client of a version. In v2 it sends the fields of a body in the typed envelope. */
export function createVersionedClient(client: Client, version: VersionNumber): VersionedClient {
  const at = (path: string) => `/api/v${version}${path}`
  const body = (path: string, members: unknown) =>
    version === 2 && isObject(members) ? { data: { type: getType(path), attributes: members } } : members
  return {
    version,
    get: async (path, headers) => answer(await client.get(at(path), headers)),
    post: async (path, members, headers) => answer(await client.post(at(path), body(path, members), headers)),
    put: async (path, members, headers) => answer(await client.put(at(path), body(path, members), headers)),
    patch: async (path, members, headers) =>
      answer(await client.patch(at(path), body(path, members), headers)),
    delete: async (path, headers) => answer(await client.delete(at(path), headers)),
  }
}

let made = 0

/** Returns a unique SKU, email part or name. */
export const createUniqueName = (prefix: string) => `${prefix}-${process.pid}-${++made}`
