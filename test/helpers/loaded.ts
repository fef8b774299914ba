/** A process that builds the app without a collector, and prints which modules of OpenTelemetry it has loaded. */
import { createRequire } from 'node:module'
import { buildApp } from '../../src/app.ts'
import { readConfig } from '../../src/config.ts'
import { testDatabase } from './database.ts'

const undo: (() => unknown)[] = []
const database = await testDatabase({ teardown: (each) => undo.push(each) })
const app = await buildApp(
  readConfig({
    NODE_ENV: 'test',
    LOG_LEVEL: 'silent',
    ADMIN_API_KEY: 'k'.repeat(40),
    APP_SECRET: 's'.repeat(40),
  }),
  { database },
)
await app.ready()
// They are CommonJS, and so leave their names here.
const loaded = Object.keys(createRequire(import.meta.url).cache).filter((name) =>
  /@opentelemetry\/(?!api\/)/.test(name),
)
console.log(JSON.stringify(loaded))
await app.close()
for (const each of undo) await each()
