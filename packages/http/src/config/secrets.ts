/** The application secret that all processes share, and the keys derived from it, one per purpose. */
import { hkdfSync, randomBytes } from 'node:crypto'
import { link, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { getErrorCode } from '@resource-api/database'
import { createFolder } from '@resource-api/database/files'
import type { Config } from './settings.ts'

/** @returns undefined if the file does not exist */
async function readSecret(file: string): Promise<string | undefined> {
  try {
    const secret = (await readFile(file, 'utf8')).trim()
    if (secret.length < 32)
      throw new Error(
        `${file} must hold a secret of 32 characters or more; delete the file to create a new one`,
      )
    return secret
  } catch (error) {
    if (getErrorCode(error) === 'ENOENT') return undefined
    throw error
  }
}

/**
 * Creates the file with the secret, atomically: the secret is written to a temporary file, and a hard link gives that
 * file its name only if no other process has created it first.
 */
async function createSecret(file: string, secret: string): Promise<void> {
  const temporary = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`
  await writeFile(temporary, `${secret}\n`, {
    mode: 0o600,
    flag: 'wx',
    flush: true,
  })
  try {
    await link(temporary, file)
  } catch (error) {
    if (getErrorCode(error) !== 'EEXIST') throw error
  } finally {
    await rm(temporary)
  }
}

/** Returns the path of the file in which the secret is kept if `APP_SECRET` is not set. */
export const getSecretFile = (dataDir: string): string => join(dataDir, 'app-secret')

/** Returns the kept secret, or undefined if there is none. */
export const readKeptSecret = (dataDir: string): Promise<string | undefined> =>
  readSecret(getSecretFile(dataDir))

/** Keeps the secret in `dataDir`, unless a secret is kept there. @returns the kept secret */
export async function keepSecret(dataDir: string, secret: string): Promise<string> {
  createFolder(dataDir)
  const file = getSecretFile(dataDir)
  const existing = await readSecret(file)
  if (existing !== undefined) return existing
  await createSecret(file, secret)
  const kept = await readSecret(file)
  if (kept === undefined) throw new Error(`${file} was deleted while this process created it`)
  return kept
}

/** Returns `APP_SECRET` or, if it is not set, the secret in `DATA_DIR`, which the first process creates. */
export async function loadAppSecret(config: Pick<Config, 'APP_SECRET' | 'DATA_DIR'>): Promise<string> {
  if (config.APP_SECRET !== undefined) return config.APP_SECRET
  return keepSecret(config.DATA_DIR, randomBytes(48).toString('base64url'))
}

/** The same whatever the name of the product, so that a rename keeps what was signed and encrypted. */
const KEY_SALT = 'application keys'

/**
 * Derives the key for one purpose with HKDF-SHA256. A leaked key reveals neither the secret nor any other key.
 * @param length in bytes
 */
export function deriveKey(secret: string, purpose: string, length = 32): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, KEY_SALT, purpose, length))
}

/** What users notice if a database is served with another secret. Passwords and API keys do not depend on it. */
export const SECRET_USES =
  'With another secret, users have to sign in again, cursors are invalid, webhook endpoints need new secrets, and a request with an Idempotency-Key of the last 24 hours is 422.'
