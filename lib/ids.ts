/** Creates ids, UUIDs of version 7 (RFC 9562, section 5.7) in ascending order within one process, and recognizes UUIDs. */
export { NIL as NIL_UUID, v7 as newId } from 'uuid'

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/**
 * Returns whether a text is a UUID of 8-4-4-4-12 digits, in any letter case: any version and variant, as a uuid column
 * takes it. Rows that other programs insert have such ids.
 */
export const isUuid = (text: string): boolean => UUID.test(text)
