/** Reads the migrations that drizzle-kit wrote, in their order. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { readMigrationFiles } from 'drizzle-orm/migrator'
import { DEFAULT_SCHEMA } from './client/schema.ts'
import { listMigrationFolders, type MigrationFolder } from './table-list.ts'

export interface MigrationFilter {
  /** Folders of the application, which drizzle-kit wrote; by default, its own and that of the packages. */
  folders?: readonly string[]
  /** Leaves out the migrations that were not created at one of these times (epoch milliseconds). */
  only?: ReadonlySet<number>
}

export type Migration = ReturnType<typeof loadMigrations>[number]

/** Matches a statement that builds an index without blocking writes, possibly behind comments; the last group is its name. */
export const CREATE_CONCURRENTLY =
  /^((?:\s|--[^\n]*\n)*create\s+(?:unique\s+)?index\s+)concurrently\s+((?:if\s+not\s+exists\s+)?"?([^"\s]+))/i

/**
 * Returns the migrations in the order of their times: with their origin, the names of their files, the times of their
 * creation (epoch milliseconds), by which drizzle-kit identifies them, and whether all statements are
 * `create index concurrently`.
 * @throws Error if only some of the statements of one are `create index concurrently`
 */
export function loadMigrations({ folders, only }: MigrationFilter) {
  const all = folders?.map((path) => ({ path, origin: 'application' as const })) ?? listMigrationFolders()
  const migrations = all.flatMap(readFolder).sort((a, b) => a.createdAt - b.createdAt)
  return only ? migrations.filter(({ createdAt }) => only.has(createdAt)) : migrations
}

function readFolder({ path, origin }: MigrationFolder) {
  const journal: { entries: { tag: string }[] } = JSON.parse(
    readFileSync(join(path, 'meta/_journal.json'), 'utf8'),
  )
  // Drizzle returns the migrations in the order of the journal, without their names.
  return readMigrationFiles({ migrationsFolder: path }).map(
    ({ sql, hash, folderMillis: createdAt }, index) => {
      const tag = journal.entries[index]?.tag ?? String(index)
      // drizzle-kit writes the default schema before the tables of foreign keys.
      const statements = sql
        .filter((statement) => statement.trim() !== '')
        .map((statement) => statement.replaceAll(`"${DEFAULT_SCHEMA}".`, ''))
      const isConcurrent = statements.some((statement) => CREATE_CONCURRENTLY.test(statement))
      if (isConcurrent && !statements.every((statement) => CREATE_CONCURRENTLY.test(statement)))
        throw new Error(
          `Migration ${tag} has other statements besides "create index concurrently", which cannot be in a transaction: put these into a migration of their own`,
        )
      return { origin, tag, hash, createdAt, statements, isConcurrent }
    },
  )
}
