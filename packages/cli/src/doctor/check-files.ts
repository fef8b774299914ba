/** The checks of files: free disk space, secrets, TLS certificate. */
import { X509Certificate } from 'node:crypto'
import { existsSync, statfsSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import {
  type Config,
  getCredentialsFile,
  getSecretFile,
  readKeptSecret,
  readPem,
} from '@resource-api/http/config'
import { attempt, type Finding, fail, ok, warn } from './finding.ts'

const MIB = 1024 * 1024
const LOW_SPACE = 1024 * MIB
/** PostgreSQL stops when it cannot write its log, whose files have 16 MiB. */
const NO_SPACE = 100 * MIB

const DAY_MS = 24 * 3600 * 1000
/** Certificates that renew automatically do so earlier. */
const EXPIRY_WARNING_DAYS = 14

/** Formats a number of bytes. */
export const formatBytes = (bytes: number): string =>
  bytes < 1024 * MIB ? `${(bytes / MIB).toFixed(1)} MiB` : `${(bytes / 1024 / MIB).toFixed(1)} GiB`

/** Checks the free space of the file system that holds, or will hold, the data folder. */
export function checkDisk({ DATA_DIR }: Config): Finding {
  let folder = resolve(DATA_DIR)
  while (!existsSync(folder)) folder = dirname(folder)
  const { bavail, bsize } = statfsSync(folder)
  const free = bavail * bsize
  const message = `${formatBytes(free)} are free in ${folder}`
  const advice = 'Free disk space, or set DATA_DIR to a folder on another disk.'
  if (free < NO_SPACE) return fail('disk', message, advice)
  return free < LOW_SPACE ? warn('disk', message, advice) : ok('disk', message)
}

/** Returns whether users other than the owner can read a file. Windows has no such mode. */
const isReadableByOthers = (file: string): boolean =>
  process.platform !== 'win32' && (statSync(file).mode & 0o077) !== 0

async function checkSecretFile(dataDir: string): Promise<Finding> {
  const file = resolve(getSecretFile(dataDir))
  if (!existsSync(file)) return ok('secret', 'APP_SECRET is not set; the first start generates a secret')
  if (isReadableByOthers(file))
    return fail('secret', `Other users of this machine can read ${file}`, `Run: chmod 600 ${file}`)
  return attempt('secret', 'Correct or delete the file.', async () => {
    await readKeptSecret(dataDir)
    return ok('secret', `The secret in ${file} can be read by its owner only`)
  })
}

/** Checks the application secret, and that no generated password is left in a file. */
export async function* checkSecrets({ APP_SECRET, DATA_DIR }: Config): AsyncGenerator<Finding> {
  if (APP_SECRET !== undefined) yield ok('secret', `APP_SECRET has ${APP_SECRET.length} characters`)
  else yield await checkSecretFile(DATA_DIR)
  const credentials = getCredentialsFile(DATA_DIR)
  if (existsSync(credentials)) {
    const advice = 'Store the password and the API key in a safe place and delete the file.'
    yield warn('secret', `${credentials} still has the generated credentials of the first admin`, advice)
  }
}

/** Checks the dates of the certificate. That key and certificate belong together is a rule of the settings. */
export function* checkTls({ TLS_CERT }: Config, now = Date.now()): Generator<Finding> {
  if (TLS_CERT === undefined) return
  const { validFrom, validTo } = new X509Certificate(readPem(TLS_CERT))
  const days = Math.floor((Date.parse(validTo) - now) / DAY_MS)
  const advice = 'Renew the certificate, and restart the servers.'
  if (Date.parse(validFrom) > now)
    yield fail('TLS', `The certificate is not valid before ${validFrom}`, 'Check the clock of this machine.')
  else if (days < 0) yield fail('TLS', `The certificate expired on ${validTo}`, advice)
  else if (days < EXPIRY_WARNING_DAYS) yield warn('TLS', `The certificate expires on ${validTo}`, advice)
  else yield ok('TLS', `The certificate is valid for another ${days} days`)
}
