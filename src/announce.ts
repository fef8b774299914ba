/** Shows the first credentials once: on a terminal, or, where there is none, in a file that only the owner reads. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { FirstCredentials } from '../plugins/bootstrap.ts'
import type { Config } from './config.ts'

const lines = ({ email, password, key }: FirstCredentials) => `The first admin: ${email}, password ${password}
An API key of that admin, shown this once; paste this line to use it:
  export KEY=${key}
`

export async function announce(config: Config, credentials: FirstCredentials): Promise<void> {
  if (process.stdout.isTTY) {
    console.log(lines(credentials))
    return
  }
  await mkdir(config.DATA_DIR, { recursive: true, mode: 0o700 })
  const file = resolve(join(config.DATA_DIR, 'first-credentials'))
  await writeFile(file, lines(credentials), { mode: 0o600 })
  console.log(`The first admin and an API key were made; they stand in ${file}`)
}
