/** Checks and forms of values: objects, ids, durations, email addresses, URLs of services. */

export { getChannelName } from '../identity.ts'
export { type Duration, toMilliseconds } from '../lib/duration.ts'
export { isAscii, toEmailAddress } from '../lib/email-address.ts'
export { isUuid, NIL_UUID } from '../lib/ids.ts'
export { isObject } from '../lib/is-object.ts'
export { parseServiceUrl, parseUrl, UrlError } from '../lib/service-url.ts'
