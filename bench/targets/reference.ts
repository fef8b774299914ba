/** Hand-written SQL under bare Fastify, and under nothing but node:http. */
import { fileURLToPath } from 'node:url'
import type { Target } from './target.ts'
import { version1 } from './v1.ts'

const folder = fileURLToPath(new URL('reference', import.meta.url))

const api = version1('', ({ created_at, id }) =>
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
