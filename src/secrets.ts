/** The secret that all replicas share, and the keys that are derived from it, one for each purpose. */
import { hkdfSync, randomBytes } from 'node:crypto'
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config } from './config.ts'

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

/** The file's secret, or undefined where there is none yet. */
async function kept(file: string): Promise<string | undefined> {
  try {
    const secret = (await readFile(file, 'utf8')).trim()
    if (secret.length < 32) throw new Error(`${file} holds no secret of 32 characters or more; delete it`)
    return secret
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
}

/**
 * Puts a new secret in place whole, or not at all where another process was first: the text is written
 * beside the file, and a hard link is made only if the name is free.
 */
async function keep(file: string): Promise<void> {
  const draft = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`
  await writeFile(draft, `${randomBytes(48).toString('base64url')}\n`, {
    mode: 0o600,
    flag: 'wx',
    flush: true,
  })
  try {
    await link(draft, file)
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error
  } finally {
    await rm(draft)
  }
}

/** `APP_SECRET` where it is set; else the one kept in `DATA_DIR`, made by the first process that asks. */
export async function appSecret(config: Pick<Config, 'APP_SECRET' | 'DATA_DIR'>): Promise<string> {
  if (config.APP_SECRET !== undefined) return config.APP_SECRET
  await mkdir(config.DATA_DIR, { recursive: true, mode: 0o700 })
  const file = join(config.DATA_DIR, 'app-secret')
  const found = await kept(file)
  if (found !== undefined) return found
  await keep(file)
  const made = await kept(file)
  if (made === undefined) throw new Error(`${file} was removed while it was being made`)
  return made
}

/** A key of `length` bytes for one purpose (HKDF-SHA256): who learns it learns neither the secret nor another. */
export function deriveKey(secret: string, purpose: string, length = 32): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, 'resource-api', purpose, length))
}
