/** The contract of a route without the server of `http`: what the README of the package shows. */
import { Type } from '@sinclair/typebox'
import Fastify from 'fastify'
import t from 'tap'
import { apiError, errors } from '../src/errors/index.ts'
import { Id } from '../src/schemas/types.ts'
import { validation } from '../src/validation/index.ts'
import { createAddressing, v1, versionScope } from '../src/versions/index.ts'

t.test('a Fastify instance with the contract alone validates, and has the errors of a version', async (t) => {
  const addressing = createAddressing([{ representation: v1 }], 1)
  const app = Fastify({ rewriteUrl: addressing.rewriteUrl })
  t.teardown(() => app.close())
  app.decorate('addressing', addressing)
  await app.register(errors, {
    getErrorEnvelope: (request) => addressing.getAddress(request).representation.error,
  })
  await app.register(validation, { NODE_ENV: 'development' })
  await app.register(
    async (api) => {
      await api.register(versionScope, { representation: v1 })
      const schema = {
        params: Type.Object({ id: Id('The id of a teapot') }),
        querystring: Type.Object(
          { size: Type.Optional(Type.Integer({ minimum: 1 })) },
          { additionalProperties: false },
        ),
      }
      api.get('/teapots/:id', { schema }, async () => {
        throw apiError('RESOURCE_NOT_FOUND', { message: 'There is no such teapot' })
      })
    },
    { prefix: '/api/v1' },
  )
  const url = '/v1/teapots/0190a5c4-1111-7000-8000-000000000000'
  const invalid = await app.inject(`${url}?size=0&color=red`)
  t.equal(invalid.statusCode, 400)
  t.match(invalid.json(), {
    error: { details: [{ code: 'UNKNOWN_PARAMETER' }, { code: 'OUT_OF_RANGE' }] },
  })
  const missing = await app.inject(url)
  t.equal(missing.statusCode, 404)
  t.match(missing.json(), { error: { message: 'There is no such teapot' } })
})
