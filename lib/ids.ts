/** Creates ids: UUIDs of version 7 (RFC 9562, section 5.7), in ascending order within one process. */
export { v7 as newId } from 'uuid'
