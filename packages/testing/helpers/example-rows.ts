/** Rows and bodies of the resources of the application. */
import type { Database } from '../../database/src/client/index.ts'
import { createRows, createOwnedRows as createRowsOfOwners } from '../src/example-rows.ts'
import { shopDefinitions } from './definitions.ts'

const sources = { definitions: shopDefinitions, examples: new Map() }

export const createExampleRows = (database: Database) => createRows(database, sources)
export const createOwnedRows = (database: Database) => createRowsOfOwners(database, sources)
