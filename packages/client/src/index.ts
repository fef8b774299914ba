/** The public interface of the package: the client of the example. */
export * from './engine.ts'
export type { components, operations, paths } from './openapi.ts'
export {
  type Client,
  type Collection,
  type CollectionPath,
  createClient,
  type Resource,
} from './own-collections.ts'
