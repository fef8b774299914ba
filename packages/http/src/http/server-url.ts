/** The address under which clients reach the server. */
import type { FastifyInstance } from 'fastify'

/** The address of a server with the default settings, for documents that are built before a server listens. */
const DEFAULT_URL = 'http://127.0.0.1:3000'

/** Addresses that stand for all interfaces; no client can connect to them everywhere. */
const WILDCARDS = new Set(['0.0.0.0', '::'])

/** Returns PUBLIC_URL if it is set, and otherwise the address that the server listens on. */
export function getServerUrl(
  app: Pick<FastifyInstance, 'addresses' | 'initialConfig'>,
  publicUrl: string | undefined,
): string {
  if (publicUrl !== undefined) return publicUrl
  // The last one is that of the main port, the others are further addresses of a host name.
  const bound = app.addresses().at(-1)
  // A text is the path of a Unix socket, which the server does not listen on.
  if (bound === undefined || typeof bound === 'string') return DEFAULT_URL
  const { address, family, port } = bound
  const literal = family === 'IPv6' ? `[${address}]` : address
  const host = WILDCARDS.has(address) ? 'localhost' : literal
  return `${app.initialConfig.https ? 'https' : 'http'}://${host}:${port}`
}
