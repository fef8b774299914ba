/** Helpers of the rate-limit tests: read a reply's window, send many requests. */
import { type Client, createClient, type Reply } from './app.ts'

const number = (reply: Reply, name: string) => {
  const text = reply.headers.get(name)
  return text === null ? null : Number(text)
}

/** What a reply says of its window. */
export const readWindow = (reply: Reply) => ({
  limit: number(reply, 'x-ratelimit-limit'),
  remaining: number(reply, 'x-ratelimit-remaining'),
  reset: number(reply, 'x-ratelimit-reset'),
  retryAfter: number(reply, 'retry-after'),
})

/** The status with the window's limit and what is left of it: `200 600 599`. */
export const formatWindow = (reply: Reply): string => {
  const { limit, remaining } = readWindow(reply)
  return `${reply.status} ${limit} ${remaining}`
}

/** One after the other. */
export async function sendInSequence(count: number, ask: (i: number) => Promise<Reply>): Promise<Reply[]> {
  const replies: Reply[] = []
  for (let i = 0; i < count; i++) replies.push(await ask(i))
  return replies
}

/** Without credentials, from an address, where a proxy in front is believed. */
export const createClientFrom = (
  base: string,
  address: string,
  headers: Record<string, string> = {},
): Client => createClient(base, { 'x-forwarded-for': address, ...headers })
