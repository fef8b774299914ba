/** Announces the end of a deprecated API version in its responses, and responds 410 after its sunset. */
import type { FastifyReply } from 'fastify'
import { apiError } from '../errors/index.ts'
import type { Address } from './addresses.ts'

export interface Deprecation {
  /** The date of the deprecation, past or future (RFC 9745). */
  since: Date
  /** The date after which every response is 410 (RFC 8594). */
  sunset: Date
  /** The version that replaces this one. */
  successor: number
}

/** Returns whether the sunset of a version has passed. */
export const isRetired = ({ sunset }: Deprecation): boolean => Date.now() >= sunset.getTime()

/** Encodes the characters that end a link's target (`<`, `>`) or that are not allowed in a header. */
const encodePath = (path: string) => path.replace(/[^\x21\x23-\x3b\x3d\x3f-\x7e]/g, encodeURIComponent)

/** Returns the same path in the successor version, in the form that the client used if that form names a version. */
const getSuccessorPath = ({ form, path }: Address, successor: number) =>
  `${/^(?:\/api)?(?=\/v)/.exec(form)?.[0] ?? '/api'}/v${successor}${encodePath(path)}`

/**
 * Adds the headers Deprecation, Sunset and Link to a response.
 * @throws ApiError 410 after the sunset date
 */
export function announceDeprecation(
  deprecation: Deprecation,
  address: Address,
  reply: FastifyReply,
  publicUrl: string | undefined,
) {
  const { since, sunset, successor } = deprecation
  reply.header('Deprecation', `@${Math.floor(since.getTime() / 1000)}`)
  reply.header('Sunset', sunset.toUTCString())
  reply.header('Link', `<${publicUrl ?? ''}${getSuccessorPath(address, successor)}>; rel="successor-version"`)
  if (isRetired(deprecation)) throw apiError('VERSION_RETIRED')
}
