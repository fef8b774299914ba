/** The hand-written reference servers: one on Fastify, one on `node:http` alone. */
import { fileURLToPath } from 'node:url'
import type { Target } from './target.ts'
import { createVersion1Api } from './version1-api.ts'

const folder = fileURLToPath(new URL('reference', import.meta.url))

const api = createVersion1Api('', ({ created_at, id }) =>
  Buffer.from(JSON.stringify([created_at, id])).toString('base64url'),
)

export const reference: Target = {
  name: 'reference',
  title: 'Fastify, hand-written',
  folder,
  script: 'fastify.js',
  env: {},
  api,
}

export const nodeHttp: Target = {
  name: 'node-http',
  title: 'node:http, hand-written',
  folder,
  script: 'node-http.js',
  env: {},
  api,
}
