/** `openapi`: a version's document, as the server would show it, without a database. */
import type { Database } from '../../drizzle/client/index.ts'
import { versions } from '../../plugins/versioning/index.ts'
import { readConfig } from '../config.ts'
import { type Command, wholeNumber } from './command.ts'

/** Never asked for the document: it only says that there is somebody, so that no first admin is made. */
const stand: Database = {
  kind: 'embedded',
  run: async () => [{}],
  transaction: (work) => work(stand),
  ping: async () => {},
  getLoad: () => ({ size: 0, used: 0, waiting: 0 }),
  estimateWait: () => 0,
  close: async () => {},
}

const unused = 'x'.repeat(32)
const known = versions.map(({ representation }) => representation.version)

export const openapi: Command = {
  summary: 'Print the OpenAPI document of a version',
  details: 'The document is JSON on standard output: the one that a server shows at /openapi/v{n}.json.',
  options: {
    version: { value: 'n', help: `The version: ${known.join(' or ')}`, default: `${Math.max(...known)}` },
  },
  async run(values) {
    const version = wholeNumber(values, 'version', Math.min(...known), Math.max(...known))
    // The document is the same whatever the environment says.
    const config = readConfig({ LOG_LEVEL: 'silent', APP_SECRET: unused, ADMIN_API_KEY: unused })
    // Loaded only here: no other command needs the whole service.
    const { buildApp } = await import('../app.ts')
    const app = await buildApp(config, { database: stand })
    try {
      await app.ready()
      const document = await app.documents.get(version)?.()
      console.log(JSON.stringify(JSON.parse(document ?? 'null'), null, 2))
    } finally {
      await app.close()
    }
  },
}
