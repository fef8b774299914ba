/**
 * All tables and sequences of the service, and the folders of their migrations: those of the product, and those that the
 * application registers before it opens a database.
 */
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { getTableName, is } from 'drizzle-orm'
import { PgTable } from 'drizzle-orm/pg-core'
import * as accountTables from './account-tables.ts'
import * as credentialTables from './credential-tables.ts'
import * as eventTables from './event-tables.ts'
import * as idempotencyTables from './idempotency-tables.ts'
import { findPackageFolder } from './lib/package-folder.ts'
import type { Origin } from './migration-records.ts'
import * as userTables from './user-tables.ts'
import * as workTables from './work-tables.ts'

const packageDeclarations: readonly unknown[] = [
  accountTables,
  credentialTables,
  eventTables,
  idempotencyTables,
  userTables,
  workTables,
].flatMap((file) => Object.values<unknown>(file))
const ownDeclarations: unknown[] = []

export interface MigrationFolder {
  path: string
  origin: Origin
}

const ownFolders: MigrationFolder[] = []

interface ApplicationTables {
  /** The exports of its files of tables. */
  declarations: readonly unknown[]
  /** The folder in which drizzle-kit wrote its migrations. A relative path begins at the folder of its package.json. */
  migrations: string
  /** `import.meta.url` of the module that registers them, from which package.json is found. */
  url: string
}

/** Returns whether a table of the packages has the name in SQL. */
export const isPackageTable = (name: string): boolean =>
  packageDeclarations.some((each) => is(each, PgTable) && getTableName(each) === name)

/**
 * Registers the tables of the application. Called once, when it is imported.
 * @throws Error if one has the name of a table of the packages
 */
export function registerTables(application: ApplicationTables): void {
  for (const table of application.declarations) {
    if (!is(table, PgTable) || packageDeclarations.includes(table) || !isPackageTable(getTableName(table)))
      continue
    throw new Error(
      `The packages have a table "${getTableName(table)}": give that of the application another name`,
    )
  }
  ownDeclarations.push(...application.declarations)
  const root = findPackageFolder(application.url)
  ownFolders.push({ path: resolve(root, application.migrations), origin: 'application' })
}

export const listDeclarations = (): readonly unknown[] => [...packageDeclarations, ...ownDeclarations]

/**
 * The folder of the packages is not found when the module is loaded, because drizzle-kit loads it as CommonJS, without
 * `import.meta`.
 */
export const listMigrationFolders = (): readonly MigrationFolder[] => [
  { path: fileURLToPath(new URL('./migrations', import.meta.resolve('#package'))), origin: 'packages' },
  ...ownFolders,
]
