/** Generates the client of Hey API, which validates what it sends with Zod. */
import { defineConfig } from '@hey-api/openapi-ts'

export default defineConfig({
  input: String(process.env.DOCUMENT),
  output: { path: `${process.env.OUTPUT}/hey-api`, importFileExtension: '.ts' },
  plugins: [
    '@hey-api/client-fetch',
    '@hey-api/typescript',
    'zod',
    { name: '@hey-api/sdk', validator: { request: 'zod' } },
  ],
})
