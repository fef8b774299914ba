/** Reads the migrations that drizzle-kit wrote, in their order. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readMigrationFiles } from 'drizzle-orm/migrator'
import { DEFAULT_SCHEMA } from './client/schema.ts'

export interface MigrationFilter {
  /** A folder of drizzle-kit; by default the one of this package. */
  folder?: string
  /** Leaves out the migrations that were not created at one of these times (epoch milliseconds). */
  only?: ReadonlySet<number>
}

export interface Migration {
  /** The name of its file. */
  tag: string
  hash: string
  /** Epoch milliseconds of its creation, by which drizzle-kit identifies an applied migration. */
  createdAt: number
  statements: string[]
  /** Whether all statements are `create index concurrently`, which cannot run in a transaction. */
  isConcurrent: boolean
}

/** Matches a statement that builds an index without blocking writes, possibly behind comments; the last group is its name. */
export const CREATE_CONCURRENTLY =
  /^((?:\s|--[^\n]*\n)*create\s+(?:unique\s+)?index\s+)concurrently\s+((?:if\s+not\s+exists\s+)?"?([^"\s]+))/i

export function loadMigrations({ folder = getPackagedFolder(), only }: MigrationFilter): Migration[] {
  const journal: { entries: { tag: string }[] } = JSON.parse(
    readFileSync(join(folder, 'meta/_journal.json'), 'utf8'),
  )
  // Drizzle returns the migrations in the order of the journal, without their names.
  const migrations = readMigrationFiles({ migrationsFolder: folder }).map(
    ({ sql, hash, folderMillis }, index) => {
      const tag = journal.entries[index]?.tag ?? String(index)
      // drizzle-kit writes the default schema before the tables of foreign keys.
      const statements = sql
        .filter((statement) => statement.trim() !== '')
        .map((statement) => statement.replaceAll(`"${DEFAULT_SCHEMA}".`, ''))
      return {
        tag,
        hash,
        createdAt: folderMillis,
        statements,
        isConcurrent: checkConcurrent(tag, statements),
      }
    },
  )
  return only ? migrations.filter(({ createdAt }) => only.has(createdAt)) : migrations
}

/** @throws Error if only some of the statements are `create index concurrently` */
function checkConcurrent(tag: string, statements: readonly string[]): boolean {
  const { length } = statements.filter((statement) => CREATE_CONCURRENTLY.test(statement))
  if (length > 0 && length < statements.length)
    throw new Error(
      `Migration ${tag} has other statements besides "create index concurrently", which cannot be in a transaction: put these into a migration of their own`,
    )
  return length > 0
}

/** Found through `imports` of package.json, which works both for the sources and for `dist`. */
function getPackagedFolder(): string {
  return fileURLToPath(new URL('..', import.meta.resolve('#migrations/meta/_journal.json')))
}
