/** A version that ends: what its replies announce, and what is left of it afterwards. */
import type { FastifyReply } from 'fastify'
import { apiError } from '../errors/index.ts'
import type { Address } from './addresses.ts'

export interface Deprecation {
  /** When it was, or will be, deprecated (RFC 9745). */
  since: Date
  /** When it ends (RFC 8594): from then on, 410. */
  sunset: Date
  /** The version to go to. */
  successor: number
}

const epoch = (date: Date) => Math.floor(date.getTime() / 1000)

/** What a path may hold that ends a link's target, or that no header may hold. */
const encoded = (path: string) => path.replace(/[^\x21\x23-\x3b\x3d\x3f-\x7e]/g, encodeURIComponent)

/** The same path in the version to go to, in the client's own form where that names a version. */
const successorOf = ({ form, path }: Address, successor: number) =>
  `${/^(?:\/api)?(?=\/v)/.exec(form)?.[0] ?? '/api'}/v${successor}${encoded(path)}`

/** @throws ApiError 410 once the version has ended */
export function announce(
  { since, sunset, successor }: Deprecation,
  address: Address,
  reply: FastifyReply,
  publicUrl: string | undefined,
) {
  reply.header('Deprecation', `@${epoch(since)}`)
  reply.header('Sunset', sunset.toUTCString())
  reply.header('Link', `<${publicUrl ?? ''}${successorOf(address, successor)}>; rel="successor-version"`)
  if (Date.now() >= sunset.getTime()) throw apiError('VERSION_RETIRED')
}
