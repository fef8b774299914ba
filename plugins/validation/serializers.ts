/** Compiles response serializers once per schema, since many routes share the same schemas. */
import selector from '@fastify/fast-json-stringify-compiler'

const createCompiler = selector()
const cache = new Map<string, selector.Serializer>()

/** Fastify's default serializer compiler with a cache. */
export const buildSerializer: selector.SerializerFactory = (sharedSchemas, options) => {
  const compile = createCompiler(sharedSchemas, options)
  return (route) => {
    // The serializer depends only on the route's schema and on the shared schemas that it may reference.
    const key = JSON.stringify([sharedSchemas, route.schema])
    const serialize = cache.get(key) ?? compile(route)
    cache.set(key, serialize)
    return serialize
  }
}
