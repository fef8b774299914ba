/** Clients that speak one version and read its resources flat, so that one test can be asked of both versions. */
import type { Client, Json, Reply } from './app.ts'

export const VERSIONS = [1, 2] as const
export type VersionNumber = (typeof VERSIONS)[number]

interface Answer extends Reply {
  /** The resource, or the page of them, with its members flat. */
  data: Json
  code: string | undefined
  message: string
  /** What is wrong, as `field CODE`, in v2 without what the typed envelope puts before the field. */
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

/** `/users/1/posts/2` and `/users/1/posts` are both of `posts`. */
const typeOf = (path: string) =>
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

/** In v2 the members of a body are sent typed. */
export function createVersionedClient(client: Client, version: VersionNumber): VersionedClient {
  const at = (path: string) => `/api/v${version}${path}`
  const body = (path: string, members: unknown) =>
    version === 2 && isObject(members) ? { data: { type: typeOf(path), attributes: members } } : members
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

/** What was read, without the id that a body does not repeat. */
export const omitId = ({ id: _, ...members }: Json): Json => members

let made = 0

/** A sku, an address, a name that nothing else in this test has. */
export const createUniqueName = (prefix: string) => `${prefix}-${process.pid}-${++made}`

/** A product that can be ordered. */
export const createActiveProduct = async (
  by: VersionedClient,
  members: Record<string, unknown> = {},
): Promise<Json> => {
  const sku = createUniqueName('SKU')
  const reply = await by.post('/products', {
    sku,
    name: sku,
    price_amount: 500,
    stock: 10,
    status: 'active',
    ...members,
  })
  if (reply.status !== 201) throw new Error(`The product was not made: ${reply.text}`)
  return reply.data
}

export const readStock = async (by: VersionedClient, id: string): Promise<number> =>
  (await by.get(`/products/${id}`)).data.stock
