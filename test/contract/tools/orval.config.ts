/** Generates the client of orval: functions with `fetch` that call the server which the document names. */
import { defineConfig } from 'orval'

export default defineConfig({
  api: {
    input: { target: String(process.env.DOCUMENT) },
    output: {
      target: `${process.env.OUTPUT}/orval/api.ts`,
      client: 'fetch',
      baseUrl: { getBaseUrlFromSpecification: true },
    },
  },
})
