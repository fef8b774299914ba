/** Shows the first credentials once: on a terminal, or, where there is none, in a file that only the owner reads. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { FirstCredentials } from '../plugins/auth/bootstrap.ts'
import type { Config } from './config.ts'

const lines = ({ email, password, key }: FirstCredentials) => `The first admin: ${email}, password ${password}
An API key of that admin, shown this once; paste this line to use it:
  export KEY=${key}
`

/**
 * Creates a file that only its owner can read. `wx` (O_EXCL) neither overwrites a file, whose mode would stay as it is,
 * nor follows a symbolic link, also a dangling one.
 * @throws Error where there is something of that name
 */
async function createFile(file: string, text: string): Promise<void> {
  try {
    await writeFile(file, text, { mode: 0o600, flag: 'wx' })
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
    throw new Error(
      `The first credentials cannot be written: ${file} already exists. No user was created; move or delete that file and start again`,
    )
  }
}

export async function announce(config: Config, credentials: FirstCredentials): Promise<void> {
  if (process.stdout.isTTY) {
    console.log(lines(credentials))
    return
  }
  await mkdir(config.DATA_DIR, { recursive: true, mode: 0o700 })
  const file = resolve(join(config.DATA_DIR, 'first-credentials'))
  await createFile(file, lines(credentials))
  console.log(`The first admin and an API key were made; they stand in ${file}`)
}
