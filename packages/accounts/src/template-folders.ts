/** The folders of templates of mails and pages: `templates/` of this package and, whose files win, that of the application. */
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { getApplication } from '@resource-api/database/application'
import { findPackageFolder } from '@resource-api/database/files'

/** Found through `imports` of package.json, which works both for the sources and for `dist`. */
const packageFolder = fileURLToPath(new URL('.', import.meta.resolve('#templates/password-reset.txt')))

/** @throws Error if the application declares a folder that does not exist */
function listFolders(): string[] {
  const { templates, url } = getApplication()
  if (templates === undefined) return [packageFolder]
  const root = url === undefined ? process.cwd() : findPackageFolder(url)
  const folder = resolve(root, templates)
  if (!existsSync(folder))
    throw new Error(
      `The application declares templates: '${templates}', but there is no folder ${folder}: create it, or copy it into the image`,
    )
  return [packageFolder, folder]
}

/** The last one is the folder in which files are added. */
export const templateFolders: readonly string[] = listFolders()

/** Returns the path of a file that this package has, or of the file in its place. */
export const findTemplate = (name: string): string =>
  templateFolders.map((folder) => join(folder, name)).findLast(existsSync) ?? join(packageFolder, name)
