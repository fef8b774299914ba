/** The options of a collection's plugin. */
import type { Representation } from '../versioning/representation/types.ts'

export interface CollectionOptions {
  /** The version of the API in whose scope the plugin is registered. */
  representation: Representation
  /** Signs cursors; the same on every replica of the service. */
  cursorKey: Buffer
  publicUrl: string | undefined
  requireIfMatch: boolean
}
