/** Why an attempt failed, in sentences that reveal no address, no file and no text of a library. */
import { getErrorCode } from '@resource-api/database'
import { errors } from 'undici'

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

const sentences: readonly (readonly [codes: RegExp, sentence: string])[] = [
  [/^(?:ENOTFOUND|ENODATA)$/, NO_ADDRESS],
  [/^(?:EAI_AGAIN|ESERVFAIL|EREFUSED|ETIMEOUT)$/, 'the host name could not be resolved'],
  [/^ECONNREFUSED$/, 'the connection was refused'],
  [
    /^(?:ECONNRESET|EPIPE|UND_ERR_SOCKET|UND_ERR_RES_CONTENT_LENGTH_MISMATCH)$/,
    'the connection was closed before the response was complete',
  ],
  [/^(?:EHOSTUNREACH|ENETUNREACH|ETIMEDOUT)$/, 'the host cannot be reached'],
  [/^(?:EPROTO$|ERR_SSL_)/, 'the TLS handshake failed'],
  [/^UND_ERR_HEADERS_OVERFLOW$/, 'the headers of the response are too large'],
  // The results of OpenSSL's check of a certificate, as Node.js names them.
  [
    /^(?:CERT_|UNABLE_TO_|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|INVALID_|HOSTNAME_MISMATCH|ERR_TLS_CERT_)/,
    'the TLS certificate is not valid',
  ],
]

/** Returns the sentence for an error of a look-up, a connection or a response. */
export function describeFailure(error: unknown): string {
  if (error instanceof AttemptError) return error.message
  // Its `code` is undefined in undici 7.30.2.
  if (error instanceof errors.HTTPParserError) return 'the response is not valid HTTP'
  const code = getErrorCode(error) ?? ''
  return sentences.find(([codes]) => codes.test(code))?.[1] ?? 'the request failed'
}
