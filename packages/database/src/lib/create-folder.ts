/** Creates folders that only their owner may open. */
import { existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { getErrorCode } from './error-code.ts'

/**
 * Creates a folder and its parents, unless it exists. Not with `recursive: true`: Node.js then repeats the call forever
 * if the system answers ENOENT although the parent exists, as it does in /proc.
 * @throws Error that names the folder
 */
export function createFolder(folder: string): void {
  const parent = dirname(folder)
  if (!existsSync(parent)) createFolder(parent)
  try {
    mkdirSync(folder, { mode: 0o700 })
  } catch (cause) {
    if (getErrorCode(cause) === 'EEXIST' && statSync(folder).isDirectory()) return
    throw new Error(
      `The folder ${folder} cannot be created; DATA_DIR must be a folder that this user may write to`,
      {
        cause,
      },
    )
  }
}
