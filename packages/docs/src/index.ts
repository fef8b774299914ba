/** The face of the package for applications. */

export type {} from './openapi/index.ts'
export { default as docs, documents } from './openapi/index.ts'
