/** The type of `src/own.ts`: what a project may add to the product. */
import type { OwnRoutes } from '../plugins/collection/own-routes.ts'
import type { ResourcePlugin } from '../plugins/collection/plugin.ts'
import type { Consumer } from '../plugins/consumers/definition.ts'
import type { Job } from '../plugins/jobs/definition.ts'
import type { CommandTools } from './cli/command-tools.ts'

export interface Own {
  /** The plugins of the resources. */
  resources: readonly ResourcePlugin[]
  /** Routes beside those of the resources. */
  routes: readonly OwnRoutes[]
  /** Work that is repeated at its times. */
  jobs: readonly Job[]
  /** What happens after changes. */
  consumers: readonly Consumer[]
  /** Adds commands to the command line. */
  commands: (tools: CommandTools) => void
}

const NOTHING: Own = { resources: [], routes: [], jobs: [], consumers: [], commands: () => undefined }

/** Returns the list with nothing in the place of each member that it lacks. */
export const defineOwn = (own: Partial<Own>): Own => ({ ...NOTHING, ...own })
