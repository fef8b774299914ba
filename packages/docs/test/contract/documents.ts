/** A server for the contract tests, and its documents in files. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Owner } from '../../../testing/helpers/database.ts'
import { createServerSettings, startServer } from '../../../testing/helpers/process.ts'
import { folder } from './run-tool.ts'

export const ADMIN = {
  email: 'admin@example.com',
  password: 'correct horse battery staple',
  key: 'contract-tests-key-0123456789abcdef',
}

/** Starts the built server on an empty database. Returns its address. */
export async function startFreshServer(t: Owner, more: Record<string, string> = {}): Promise<string> {
  const settings = { ADMIN_API_KEY: ADMIN.key, ADMIN_PASSWORD: ADMIN.password, LOG_LEVEL: 'info', ...more }
  const { url } = await startServer(t, { ...(await createServerSettings(t)), ...settings })
  return url
}

/**
 * Writes the document of a version below `.generated`. Returns the path.
 * @param name the folder of the calling test
 */
export async function saveDocument(baseUrl: string, version: 'v1' | 'v2', name: string): Promise<string> {
  const output = join(folder, '.generated', name, version)
  mkdirSync(output, { recursive: true })
  const path = join(output, 'openapi.json')
  writeFileSync(path, await (await fetch(`${baseUrl}/openapi/${version}.json`)).text())
  return path
}
