/** The definitions of the application. */
import { listDefinitions } from '../../../src/resources.ts'
import { readDefinitions } from '../src/definitions.ts'

export const shopDefinitions = readDefinitions(listDefinitions())

/** The resources of `src/app.ts`, credentials, events and webhooks. */
export const { definitions, getDefinition, getOwnerColumn, getTable, isRegistered } = shopDefinitions
