/** The hand-written reference servers on Fastify: a plain one, and one with the features of this service. */
import { fileURLToPath } from 'node:url'
import type { Target } from './target.ts'
import { createVersion1Api } from './version1-api.ts'

const common = {
  folder: fileURLToPath(new URL('reference', import.meta.url)),
  script: 'fastify.js',
  api: createVersion1Api('', ({ created_at, id }) =>
    Buffer.from(JSON.stringify([created_at, id])).toString('base64url'),
  ),
}

export const plainReference: Target = {
  name: 'reference',
  title: 'plain reference',
  ...common,
  env: {},
}

const API_KEY = 'reference-key-reference-key'

export const equalReference: Target = {
  name: 'equal',
  title: 'equal reference',
  ...common,
  env: { API_KEY },
  createHeaders: async () => ({ 'X-API-Key': API_KEY }),
}
