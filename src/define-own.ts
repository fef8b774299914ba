/** The type of `src/own.ts`: what a project may add to the product. */
import type { ResourceDefinition } from '../plugins/collection/definition.ts'

interface Own {
  /** The definitions of the resources. */
  resources: readonly ResourceDefinition[]
}

/** Returns the list with nothing in the place of each member that it lacks. */
export const defineOwn = (own: Partial<Own>): Own => ({ resources: [], ...own })
