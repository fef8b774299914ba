/** Finds the package of a module. */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * Returns the folder with the package.json of a module, which may be one of the sources or of `dist`.
 * @param url `import.meta.url` of the module
 */
export const findPackageFolder = (url: string): string => findIn(dirname(fileURLToPath(url)))

function findIn(folder: string): string {
  const parent = dirname(folder)
  return parent === folder || existsSync(join(folder, 'package.json')) ? folder : findIn(parent)
}
