/** The validator of queries and bodies. All resources share it, so that equal schemas are compiled once. */
import { createAjv } from '../validation/formats.ts'

export const ajv = createAjv()
