/** Reads replies: pages, violations, rate-limit windows, and what a replay repeats. */
import { v7 as uuid } from 'uuid'
import { type Client, createClient, type Json, type Reply } from './client.ts'

export const getIds = ({ body }: Reply): string[] => body.data.map((each: Json) => each.id)

/** Returns the violations of an error as `limit OUT_OF_RANGE`, sorted, from either version's envelope. */
export const getViolations = ({ body }: Reply): string[] =>
  (body.error.details ?? body.error.errors ?? [])
    .map(({ field, code }: { field: string; code: string }) => `${field} ${code}`)
    .sort()

/** Returns the violations in the order of the reply; its text if there are none. */
export const listViolations = ({ body, text }: Reply): string[] => {
  const violations: { field: string; code: string }[] | undefined =
    body?.error?.details ?? body?.error?.errors
  return violations?.map(({ field, code }) => `${field} ${code}`) ?? [text]
}

/** Returns the links of the Link header by relation. */
export function getLinks({ headers }: Reply): Record<string, string> {
  const links = (headers.get('link') ?? '').matchAll(/<([^>]*)>; rel="([^"]*)"/g)
  return Object.fromEntries([...links].map(([, address, rel]) => [rel, address]))
}

const withParameter = (path: string, name: string, value: string | number) =>
  `${path}${path.includes('?') ? '&' : '?'}${name}=${encodeURIComponent(value)}`

/** Yields every page of a list by following its cursors; `between` runs after each page. */
export async function* readPages(
  client: Client,
  path: string,
  between: () => Promise<unknown> = async () => {},
): AsyncGenerator<Reply> {
  let cursor = ''
  while (true) {
    const reply = await client.get(withParameter(path, 'cursor', cursor))
    if (reply.status !== 200) throw new Error(`${reply.status} ${path}: ${reply.text}`)
    yield reply
    const { pagination } = reply.body
    if (pagination.has_more !== (pagination.cursor !== null)) throw new Error('has_more and cursor disagree')
    if (pagination.cursor === null) return
    cursor = pagination.cursor
    await between()
  }
}

/** Returns every id of a list in order, by following its cursors. */
export async function collectIds(
  client: Client,
  path: string,
  between?: () => Promise<unknown>,
): Promise<string[]> {
  const ids: string[] = []
  for await (const page of readPages(client, path, between)) ids.push(...getIds(page))
  return ids
}

/** Returns an Idempotency-Key header with a new key. */
export const createKeyHeader = (): { 'idempotency-key': string } => ({ 'idempotency-key': uuid() })

/** Returns the parts of a reply that a replay repeats. */
export const pickReplayedParts = ({ status, headers, text }: Reply) => ({
  status,
  text,
  location: headers.get('location'),
  etag: headers.get('etag'),
})

export const isReplayed = ({ headers }: Reply) => headers.get('idempotency-replayed') === 'true'

const number = (reply: Reply, name: string) => {
  const text = reply.headers.get(name)
  return text === null ? null : Number(text)
}

/** Returns the rate-limit headers of a reply as numbers. */
export const readWindow = (reply: Reply) => ({
  limit: number(reply, 'x-ratelimit-limit'),
  remaining: number(reply, 'x-ratelimit-remaining'),
  reset: number(reply, 'x-ratelimit-reset'),
  retryAfter: number(reply, 'retry-after'),
})

/** Returns status, limit and remaining requests: `200 600 599`. */
export const formatWindow = (reply: Reply): string => {
  const { limit, remaining } = readWindow(reply)
  return `${reply.status} ${limit} ${remaining}`
}

/** Sends requests one after the other. */
export async function sendInSequence(count: number, ask: (i: number) => Promise<Reply>): Promise<Reply[]> {
  const replies: Reply[] = []
  for (let i = 0; i < count; i++) replies.push(await ask(i))
  return replies
}

/** Creates a client without credentials whose IP address is the given one if the app trusts the proxy. */
export const createClientFrom = (
  base: string,
  address: string,
  headers: Record<string, string> = {},
): Client => createClient(base, { 'x-forwarded-for': address, ...headers })
