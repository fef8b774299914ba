/** Creates ids: UUIDs of version 7 (RFC 9562, section 5.7), in ascending order within one process. */
import { v7 } from 'uuid'

export const newId = (): string => v7()
