/**
 * The files of a new embedded database, which `npm run build` prepares: PGlite's `initdb` runs two further engines and
 * copies their memory, up to 790 MB for a moment. Without the file, as from the sources, PGlite creates the database.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { deserialize, serialize } from 'node:v8'
import { gunzipSync, gzipSync } from 'node:zlib'
import { createFolder } from '../../lib/create-folder.ts'

/** The name has the version of PGlite that made it. */
const FILE_NAME = 'pglite-0.5.16.template'

interface Template {
  /** The paths of the folders, each after its parent. */
  folders: string[]
  /** The files by their paths. */
  files: Map<string, Uint8Array>
}

/** Returns the file of the template, in the folder of the compiled module. */
export const getTemplateFile = (base = import.meta.url) => fileURLToPath(new URL(FILE_NAME, base))

/** Writes the files of a database that is not open. */
export function packTemplate(database: string, file: string): void {
  const entries = readdirSync(database, { recursive: true, withFileTypes: true })
  const paths = entries.map((entry) => ({
    path: join(entry.parentPath, entry.name).slice(database.length + 1),
    isFolder: entry.isDirectory(),
  }))
  const template: Template = {
    folders: paths
      .filter(({ isFolder }) => isFolder)
      .map(({ path }) => path)
      .sort(),
    files: new Map(
      paths
        .filter(({ isFolder }) => !isFolder)
        .map(({ path }) => [path, new Uint8Array(readFileSync(join(database, path)))]),
    ),
  }
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, gzipSync(serialize(template)))
}

/** Writes the template into a new folder. @returns false if the build has none */
export function unpackTemplate(database: string, file = getTemplateFile()): boolean {
  if (!existsSync(file)) return false
  // `packTemplate` wrote it.
  const { folders, files } = deserialize(gunzipSync(readFileSync(file))) as Template
  createFolder(database)
  for (const folder of folders) createFolder(join(database, folder))
  for (const [path, content] of files) writeFileSync(join(database, path), content, { mode: 0o600 })
  return true
}
