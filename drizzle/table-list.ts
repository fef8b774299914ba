/**
 * All tables and sequences of the service: the exports of the files `*-tables.ts` in this folder, and of the folder
 * `tables`, in which each resource of one's own has a file.
 */
import { existsSync, readdirSync } from 'node:fs'

/** Imports the files whose names match; the sources are TypeScript, and JavaScript in the build. */
async function importAll(folder: string, pattern: RegExp): Promise<[string, object][]> {
  const path = new URL(folder, import.meta.url)
  const names = existsSync(path) ? readdirSync(path).filter((name) => pattern.test(name)) : []
  return Promise.all(
    names
      .sort()
      .map(async (name) => [`${folder}${name}`, await import(new URL(folder + name, import.meta.url).href)]),
  )
}

/** The exports of each file, by its path in this folder. */
export const tableFiles: ReadonlyMap<string, object> = new Map([
  ...(await importAll('./', /-tables\.[jt]s$/)),
  ...(await importAll('./tables/', /\.[jt]s$/)),
])

export const declarations: readonly unknown[] = [...tableFiles.values()].flatMap((file) =>
  Object.values(file),
)
