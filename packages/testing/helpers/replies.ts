/** Reads replies (violations, links, rate-limit windows, what a replay repeats), and checks refusals. */
import type { Test } from 'tap'
import { v7 as uuid } from 'uuid'
import { type Client, createClient, type Reply } from '../src/client.ts'
import { getViolations } from '../src/replies.ts'

export * from '../src/replies.ts'

/** Checks that each path is rejected with 400 and its violations. */
export async function checkRefusals(t: Test, client: Client, refusals: Record<string, string[]>) {
  for (const [path, violations] of Object.entries(refusals)) {
    const reply = await client.get(path)
    t.equal(reply.status, 400, path.slice(0, 80))
    t.equal(reply.body.error.code, 'VALIDATION_ERROR')
    t.same(getViolations(reply), violations, path.slice(0, 80))
  }
}

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
