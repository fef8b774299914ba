/** Explains every error code, for the documentation page and docs/error-codes.md. */
import {
  type FailureCode,
  type FieldCode,
  failures,
  fieldCodes,
  MAX_VIOLATIONS,
} from '../../schemas/error.ts'

interface Explanation {
  meaning: string
  remedy: string
  /** The statuses, if a code has several. Default: that of the code in `failures`. */
  statuses?: readonly number[]
}

const explanations: Readonly<Record<FailureCode, Explanation>> = {
  INVALID_REQUEST: {
    meaning:
      'The body is not readable JSON, is empty or is not an object; or a header field is invalid; or there are two credentials',
    remedy: 'Correct the request',
  },
  INVALID_CURSOR: {
    meaning: 'The cursor is invalid or belongs to another list',
    remedy: 'Start from the first page',
  },
  UNAUTHORIZED: {
    meaning: 'There are no credentials, or they are invalid or expired; or the password is wrong',
    remedy: 'Refresh the token or sign in again',
  },
  FORBIDDEN: {
    meaning: 'The role, the scope or the access rules of the resource do not permit the request',
    remedy: 'Use another credential; the message names a missing scope',
  },
  RESOURCE_NOT_FOUND: {
    meaning:
      'There is no such version, collection or resource; with `HIDE_FORBIDDEN`, also a resource that the caller may not access',
    remedy: 'Correct the path; the message says what is wrong with it',
  },
  METHOD_NOT_ALLOWED: {
    meaning: 'The path does not support the method',
    remedy: 'Use a method of `Allow` in the response',
  },
  NOT_ACCEPTABLE: {
    meaning: 'No media type or version of `Accept` is available',
    remedy: 'Correct `Accept`',
  },
  REQUEST_TIMEOUT: { meaning: 'The request took too long to arrive', remedy: 'Send it again' },
  RESOURCE_CONFLICT: {
    meaning:
      'The state of this or another resource does not permit the request; or a request with the same `Idempotency-Key` is running',
    remedy: 'Correct the fields in `details`; if there is a `Retry-After`, send it again after that time',
  },
  VERSION_RETIRED: { meaning: 'The version has been retired', remedy: 'Use the version in `Link`' },
  EVENTS_EXPIRED: {
    meaning:
      'Events after the cursor have been removed after `EVENTS_RETENTION_DAYS`; or the feed has lost the event of the cursor: the database was restored from an older backup, or a standby without the last commits was promoted',
    remedy:
      'Open a stream without a cursor, whose first `id` is the cursor of the present; read the collections again, then continue from that cursor',
  },
  PRECONDITION_FAILED: {
    meaning: 'The resource has changed since it was read, or another precondition failed',
    remedy: 'Read the resource again and repeat the change with its `ETag`',
  },
  PAYLOAD_TOO_LARGE: { meaning: 'The body is too large', remedy: 'Send a smaller body' },
  URI_TOO_LONG: { meaning: 'The query string is too long', remedy: 'Send fewer or shorter parameters' },
  UNSUPPORTED_MEDIA_TYPE: {
    meaning: 'The media type, charset or encoding of the body is not supported',
    remedy: 'Use a media type of `Accept` in the response',
  },
  VALIDATION_ERROR: {
    meaning: 'Query parameters (400) or fields of the body (422) are invalid',
    remedy: 'Correct those in `details`',
    statuses: [400, 422],
  },
  IDEMPOTENCY_KEY_REUSED: {
    meaning: 'The `Idempotency-Key` was used with another body',
    remedy: 'Use a new key for a new write',
  },
  PRECONDITION_REQUIRED: {
    meaning: 'The service requires `If-Match` for changes',
    remedy: 'Send the `ETag` of the resource as `If-Match`',
  },
  RATE_LIMIT_EXCEEDED: {
    meaning: 'There were too many requests, or too many failed ones',
    remedy: 'Wait for the number of seconds in `Retry-After`',
  },
  HEADERS_TOO_LARGE: { meaning: 'The header fields are too large', remedy: 'Send less' },
  INTERNAL_SERVER_ERROR: { meaning: 'The service has a defect', remedy: 'Report the `request_id`' },
  NOT_IMPLEMENTED: { meaning: 'HTTP does not define the method', remedy: 'Correct the method' },
  BAD_GATEWAY: {
    meaning: 'The identity provider sent an invalid response',
    remedy: 'Send the request again later',
  },
  SERVICE_UNAVAILABLE: {
    meaning: 'The service or its database is overloaded or unavailable, or the request took too long',
    remedy:
      'Wait for the number of seconds in `Retry-After`. A write may have been done: use an `Idempotency-Key`',
  },
}

const fieldMeanings: Readonly<Record<FieldCode, string>> = {
  REQUIRED: 'The field is missing',
  INVALID_TYPE: 'The value has another JSON type',
  INVALID_FORMAT:
    'The string does not have the format: a pattern, an e-mail address, a date, no control characters',
  INVALID_VALUE: 'The value is not one of those allowed',
  TOO_SHORT: 'The string or array is too short',
  TOO_LONG: 'The string or array is too long',
  OUT_OF_RANGE: 'The number or the time is too small or too large',
  UNKNOWN_FIELD: 'There is no field of this name',
  UNKNOWN_PARAMETER: 'There is no parameter of this name',
  CONFLICTING_PARAMETERS: 'Parameters contradict each other, or one is repeated',
  READ_ONLY: 'The field cannot be set or changed',
  ALREADY_EXISTS:
    'Another resource has this value, which must be unique. With several fields: it has these values together',
  NOT_FOUND: 'The resource that the field refers to does not exist, or cannot be used',
  INVALID_TRANSITION: 'The status cannot change in this way',
  INSUFFICIENT_STOCK: 'The product has too little stock',
}

/** Returns the name of a code in the fragment of a URL: `rate_limit_exceeded`. */
export const getAnchor = (code: FailureCode): string => code.toLowerCase()

/** Returns a Markdown table. */
const writeTable = (titles: readonly string[], rows: readonly (readonly string[])[]) =>
  [titles, titles.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')

/**
 * Explains all codes in Markdown: a table with a link to the entry of each code, the codes of fields, and the entries.
 * @param getLink returns the URL of the entry of a code
 */
export function writeErrorCodes(getLink: (code: FailureCode) => string): string {
  // The keys of `failures` are the codes. They are in the order of the statuses.
  const codes = Object.keys(failures) as FailureCode[]
  const explained = codes.map((code) => ({ code, statuses: [failures[code].status], ...explanations[code] }))
  return [
    writeTable(
      ['Code', 'Status', 'Meaning'],
      explained.map(({ code, statuses, meaning }) => [
        `[\`${code}\`](${getLink(code)})`,
        statuses.join(', '),
        meaning,
      ]),
    ),
    `The entries of \`details\` (\`errors\` in version 2), at most ${MAX_VIOLATIONS}, have one of these codes:`,
    writeTable(
      ['Code of a field', 'Meaning'],
      fieldCodes.map((code) => [`\`${code}\``, fieldMeanings[code]]),
    ),
    ...explained.map(
      ({ code, statuses, meaning, remedy }) =>
        `### ${code}\n\nStatus ${statuses.join(' or ')}. ${meaning}.\n\n**What to do:** ${remedy}.`,
    ),
  ].join('\n\n')
}
