/** Registers the tables of one's own, of which each resource has a file in `tables`, and their migrations. */
import { existsSync, readdirSync } from 'node:fs'
import { registerTables } from '@resource-api/database'

const folder = new URL('./tables/', import.meta.url)

/** The exports of each file, by its path in this folder. The sources are TypeScript, and JavaScript in the build. */
export const tableFiles: ReadonlyMap<string, object> = new Map(
  await Promise.all(
    // There is no folder without a resource.
    (existsSync(folder) ? readdirSync(folder) : [])
      .filter((name) => /\.[jt]s$/.test(name))
      .sort()
      .map(
        async (name): Promise<[string, object]> => [
          `./tables/${name}`,
          await import(new URL(name, folder).href),
        ],
      ),
  ),
)

registerTables({
  declarations: [...tableFiles.values()].flatMap((file) => Object.values(file)),
  migrations: 'drizzle/migrations',
  url: import.meta.url,
})
