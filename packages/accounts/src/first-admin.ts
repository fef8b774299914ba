/** Creates the first admin, and shows generated credentials once: on the terminal or, without one, in a file. */
import { writeFile } from 'node:fs/promises'
import { type Database, getErrorCode, identity } from '@resource-api/database'
import { createFolder } from '@resource-api/database/files'
import { type Config, getCredentialsFile, productSettings } from '@resource-api/http/config'
import { bootstrap, type FirstCredentials } from './auth/bootstrap.ts'
import { getAccountRecorders } from './recorders.ts'

const formatCredentials = ({
  email,
  password,
  key,
}: FirstCredentials) => `The first admin: ${email}, password ${password}
An API key of this admin, shown only this once. Paste this line to use it:
  export KEY=${key}
`

/**
 * Creates a file that only its owner can read. `wx` (O_EXCL) does not overwrite an existing file, which would keep its
 * mode, and does not follow a symbolic link, not even a dangling one.
 * @throws Error if the name is taken
 */
async function createFile(file: string, text: string): Promise<void> {
  try {
    await writeFile(file, text, { mode: 0o600, flag: 'wx' })
  } catch (error) {
    if (getErrorCode(error) !== 'EEXIST') throw error
    throw new Error(
      `Cannot write the first credentials: ${file} already exists. No user was created; move or delete that file and start again`,
    )
  }
}

/** @throws Error if the credentials file already exists */
async function announceCredentials(dataDir: string, credentials: FirstCredentials): Promise<void> {
  if (process.stdout.isTTY) {
    console.log(formatCredentials(credentials))
    return
  }
  createFolder(dataDir)
  const file = getCredentialsFile(dataDir)
  await createFile(file, formatCredentials(credentials))
  console.log(`Created the first admin and an API key; the credentials are in ${file}`)
}

export const NO_ACTIVE_ADMIN = 'The database has no active admin, so no user can manage users or roles.'
const MAKE_ADMIN = `Run '${identity.program} users set-role EMAIL --role admin' and '${identity.program} users set-status EMAIL --status active', or '${identity.program} users create --role admin --email EMAIL'.`
const SET_FIRST_ADMIN = `Set ADMIN_PASSWORD or ADMIN_API_KEY and start again, or run '${identity.program} users create --role admin --email EMAIL'.`

/** Returns what to do if no admin is active. */
export const getAdminAdvice = (hasUsers: boolean) => (hasUsers ? MAKE_ADMIN : SET_FIRST_ADMIN)

/** The settings that only a database without users reads. ADMIN_API_KEY belongs to the admin with ADMIN_EMAIL. */
function listIgnoredSettings({ ADMIN_PASSWORD, ADMIN_API_KEY, ADMIN_EMAIL }: Config): string[] {
  const isEmailIgnored = ADMIN_API_KEY === undefined && ADMIN_EMAIL !== productSettings.ADMIN_EMAIL.default
  return [
    ...(ADMIN_PASSWORD === undefined ? [] : ['ADMIN_PASSWORD']),
    ...(isEmailIgnored ? ['ADMIN_EMAIL'] : []),
  ]
}

/**
 * Creates the first admin if the database has no users, before sign-up or demo data creates any other user.
 * @returns warnings for the operator
 */
export async function createFirstAdmin(config: Config, database: Database): Promise<string[]> {
  const options = {
    email: config.ADMIN_EMAIL,
    password: config.ADMIN_PASSWORD,
    hasKey: config.ADMIN_API_KEY !== undefined,
    canGenerate: config.NODE_ENV !== 'production',
    recorders: getAccountRecorders(config),
  }
  const { hadUsers, hasActiveAdmin } = await bootstrap(database, options, (credentials) =>
    announceCredentials(config.DATA_DIR, credentials),
  )
  const warnings: string[] = []
  if (!hasActiveAdmin) warnings.push(`${NO_ACTIVE_ADMIN} ${getAdminAdvice(hadUsers)}`)
  const ignored = hadUsers ? listIgnoredSettings(config) : []
  if (ignored.length > 0) {
    const verb = ignored.length === 1 ? 'is' : 'are'
    warnings.push(
      `${ignored.join(' and ')} ${verb} ignored, because the database has users. Remove ${verb === 'is' ? 'it' : 'them'} from the settings; '${identity.program} users set-password EMAIL' changes a password.`,
    )
  }
  return warnings
}
