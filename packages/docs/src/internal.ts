/** The face of the package for the other packages: what an application does not need. */
export type {} from './index.ts'
export { type AccessTable, buildAccessTable } from './openapi/access-tables.ts'
