/** Migrations of the tests, in folders as drizzle-kit writes them. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Database } from '../../drizzle/client/index.ts'
import { migrate } from '../../drizzle/migrate.ts'
import { type Owner, testFolder } from './database.ts'

/** Creates a folder of these migrations and returns its path. */
export function createMigrations(t: Owner, migrations: Record<string, string>): string {
  const folder = testFolder(t)
  mkdirSync(join(folder, 'meta'))
  const entries = Object.entries(migrations).map(([tag, sql], idx) => {
    writeFileSync(join(folder, `${tag}.sql`), sql)
    return { idx, version: '7', when: 1_700_000_000_000 + idx, tag, breakpoints: true }
  })
  writeFileSync(
    join(folder, 'meta/_journal.json'),
    JSON.stringify({ version: '7', dialect: 'postgresql', entries }),
  )
  return folder
}

/** Runs the statements of drizzle-kit as one migration. */
export async function runMigration(
  t: Owner,
  database: Database,
  statements: readonly string[],
): Promise<void> {
  const folder = createMigrations(t, { '0000_test': statements.join('--> statement-breakpoint\n') })
  await migrate(database, { folder })
}
