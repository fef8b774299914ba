/** Shows the first admin's credentials once: on the terminal or, without one, in a file that only its owner can read. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { FirstCredentials } from '../plugins/auth/bootstrap.ts'
import type { Config } from './config.ts'

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
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
    throw new Error(
      `Cannot write the first credentials: ${file} already exists. No user was created; move or delete that file and start again`,
    )
  }
}

/** @throws Error if the credentials file already exists */
export async function announceCredentials(config: Config, credentials: FirstCredentials): Promise<void> {
  if (process.stdout.isTTY) {
    console.log(formatCredentials(credentials))
    return
  }
  await mkdir(config.DATA_DIR, { recursive: true, mode: 0o700 })
  const file = resolve(join(config.DATA_DIR, 'first-credentials'))
  await createFile(file, formatCredentials(credentials))
  console.log(`Created the first admin and an API key; the credentials are in ${file}`)
}
