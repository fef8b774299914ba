/** The type of `src/own.ts`: what a project may add to the product. */

import type { CommandTools } from '@resource-api/cli'
import type { OwnRoutes, ResourcePlugin } from '@resource-api/resources'
import type { Consumer } from './consumers/definition.ts'
import type { Job } from './jobs/definition.ts'
import type { Work } from './work/definition.ts'

export interface Own {
  /** The plugins of the resources. */
  resources: readonly ResourcePlugin[]
  /** Routes beside those of the resources. */
  routes: readonly OwnRoutes[]
  /** What requests enqueue, to be done after their commit. */
  work: readonly Work[]
  /** What is repeated at its times. */
  jobs: readonly Job[]
  /** What happens after changes. */
  consumers: readonly Consumer[]
  /** Adds commands to the command line. */
  commands: (tools: CommandTools) => void
}

const NOTHING: Own = {
  resources: [],
  routes: [],
  work: [],
  jobs: [],
  consumers: [],
  commands: () => undefined,
}

/** Returns the list with nothing in the place of each member that it lacks. */
export const defineOwn = (own: Partial<Own>): Own => ({ ...NOTHING, ...own })
