/** Generates the client of Kubb: one file of types and one of functions, with `fetch`. */
import { defineConfig } from '@kubb/core'
import { pluginClient } from '@kubb/plugin-client'
import { pluginOas } from '@kubb/plugin-oas'
import { pluginTs } from '@kubb/plugin-ts'

export default defineConfig({
  input: { path: String(process.env.DOCUMENT) },
  output: { path: `${process.env.OUTPUT}/kubb`, clean: true, format: false, lint: false },
  plugins: [
    pluginOas({ generators: [] }),
    pluginTs({ output: { path: 'types.ts' } }),
    pluginClient({ output: { path: 'client.ts' }, client: 'fetch', dataReturnType: 'full' }),
  ],
})
