/** Why an attempt failed, in sentences that reveal no address, no file and no text of a library. */
import { errors } from 'undici'
import { getErrorCode } from '../../../lib/error-code.ts'

/** An attempt that this server ended or did not begin. Its message is shown to the owner of the endpoint. */
export class AttemptError extends Error {
  override readonly name = 'AttemptError'
}

/** For an address that the policy refuses, whether it was a literal or the result of a look-up. */
export const NOT_PUBLIC = 'the address is not public'
export const NO_ADDRESS = 'the host name was not found'
/** For a response with too many bytes before its body, or too many interim responses. */
export const TOO_LARGE = 'the response is too large'
export const CANCELED = 'the attempt was canceled'

const UNRESOLVED = 'the host name could not be resolved'
const CLOSED = 'the connection was closed before the response was complete'
const UNREACHABLE = 'the host cannot be reached'
const INVALID_CERTIFICATE = 'the TLS certificate is not valid'

const sentences = new Map([
  ['ENOTFOUND', NO_ADDRESS],
  ['ENODATA', NO_ADDRESS],
  ['EAI_AGAIN', UNRESOLVED],
  ['ESERVFAIL', UNRESOLVED],
  ['EREFUSED', UNRESOLVED],
  ['ETIMEOUT', UNRESOLVED],
  ['ECONNREFUSED', 'the connection was refused'],
  ['ECONNRESET', CLOSED],
  ['EPIPE', CLOSED],
  ['UND_ERR_SOCKET', CLOSED],
  ['UND_ERR_RES_CONTENT_LENGTH_MISMATCH', CLOSED],
  ['EHOSTUNREACH', UNREACHABLE],
  ['ENETUNREACH', UNREACHABLE],
  ['ETIMEDOUT', UNREACHABLE],
  ['EPROTO', 'the TLS handshake failed'],
  ['UND_ERR_HEADERS_OVERFLOW', 'the headers of the response are too large'],
  // The result of OpenSSL's check of a certificate, as Node.js names it.
  ['DEPTH_ZERO_SELF_SIGNED_CERT', INVALID_CERTIFICATE],
  ['SELF_SIGNED_CERT_IN_CHAIN', INVALID_CERTIFICATE],
  ['INVALID_CA', INVALID_CERTIFICATE],
  ['INVALID_PURPOSE', INVALID_CERTIFICATE],
  ['HOSTNAME_MISMATCH', INVALID_CERTIFICATE],
  ['ERR_TLS_CERT_ALTNAME_INVALID', INVALID_CERTIFICATE],
])

/** Sentences for codes that share a beginning. */
const sentencesByPrefix: readonly (readonly [prefix: string, sentence: string])[] = [
  ['CERT_', INVALID_CERTIFICATE],
  ['UNABLE_TO_', INVALID_CERTIFICATE],
  ['ERR_SSL_', 'the TLS handshake failed'],
]

/** Returns the sentence for an error of a look-up, a connection or a response. */
export function describeFailure(error: unknown): string {
  if (error instanceof AttemptError) return error.message
  // Its `code` is undefined in undici 7.30.2.
  if (error instanceof errors.HTTPParserError) return 'the response is not valid HTTP'
  const code = getErrorCode(error) ?? ''
  return (
    sentences.get(code) ??
    sentencesByPrefix.find(([prefix]) => code.startsWith(prefix))?.[1] ??
    'the request failed'
  )
}
