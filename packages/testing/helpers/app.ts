/** The application with what a test replaces in it. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { type AppOverrides, buildApp } from '../../../src/app.ts'
import type { Role } from '../../database/src/application.ts'
import type { ResourceDefinition } from '../../resources/src/definition/definition.ts'
import type { ResourcePlugin } from '../../resources/src/routes/plugin.ts'
import { type Person, type TestApp, testApp as testAnyApp } from '../src/app.ts'
import type { Owner } from './database.ts'
import { serveAll } from './serve.ts'

export {
  ADMIN_KEY,
  APP_SECRET,
  insertUser,
  type Person,
  quickHasher,
  type TestApp,
} from '../src/app.ts'
export { type CallOptions, type Client, createClient, type Json, type Reply } from '../src/client.ts'

/** A valid id of no row. */
export { UNKNOWN_ID } from '../src/examples.ts'

/** What a test replaces in the app: collections have all routes that their access names. */
export type TestOverrides = Omit<AppOverrides, 'resources'> & {
  resources?: readonly (ResourcePlugin | ResourceDefinition)[]
}

/** Starts the application. @param settings environment variables */
export const testApp = (
  t: Owner,
  settings: Record<string, string> = {},
  { resources, ...overrides }: TestOverrides = {},
): Promise<TestApp> =>
  testAnyApp(t, buildApp, settings, { ...overrides, ...(resources && { resources: serveAll(resources) }) })

/** Milliseconds for which a token is accepted after its end. */
const LEEWAY_MS = 30_000

/** Issues an access token that ends after ACCESS_TOKEN_TTL with its leeway, which tests do not wait for. */
export function issueEndingToken(
  { app }: Pick<TestApp, 'app'>,
  { id, sessionId }: Person,
  role: Role,
): string {
  const { now } = Date
  Date.now = () => now() - LEEWAY_MS
  try {
    return app.accessTokens.issue({ userId: id, sessionId, role }).text
  } finally {
    Date.now = now
  }
}

/** Returns an array to which each message on the channel is added until the test ends. */
export function recordMessages(t: Owner, channel: string): unknown[] {
  const messages: unknown[] = []
  const record = (message: unknown) => messages.push(message)
  subscribe(channel, record)
  t.teardown(() => unsubscribe(channel, record))
  return messages
}
