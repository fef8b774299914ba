/** Serializers of replies, one for each schema: most are told alike by many routes, such as a 304. */
import selector from '@fastify/fast-json-stringify-compiler'

const build = selector()
const known = new Map<string, selector.Serializer>()

/** In place of Fastify's own, which it is, but for knowing what was asked before. */
export const buildSerializer: selector.SerializerFactory = (named, options) => {
  const compile = build(named, options)
  return (route) => {
    // Without schemas that others could name, a schema's text is all there is to it.
    const text = JSON.stringify([named, route.schema])
    const serialize = known.get(text) ?? compile(route)
    known.set(text, serialize)
    return serialize
  }
}
