/** Reads rate-limit headers and sends series of requests. */
import { type Client, createClient, type Reply } from './app.ts'

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
