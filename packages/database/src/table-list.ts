/**
 * All tables and sequences of the service, and the folders of their migrations: those of the product, and those that the
 * application registers before it opens a database.
 */
import { fileURLToPath } from 'node:url'
import * as accountTables from './account-tables.ts'
import * as credentialTables from './credential-tables.ts'
import * as eventTables from './event-tables.ts'
import * as idempotencyTables from './idempotency-tables.ts'
import * as userTables from './user-tables.ts'
import * as workTables from './work-tables.ts'

const declarations: unknown[] = [
  ...[accountTables, credentialTables, eventTables, idempotencyTables, userTables, workTables].flatMap(
    (file) => Object.values<unknown>(file),
  ),
]
/** The folders of the application's migrations. */
const folders: string[] = []

interface ApplicationTables {
  /** The exports of its files of tables. */
  declarations: readonly unknown[]
  /** The folder in which drizzle-kit wrote its migrations. */
  migrations: string
}

/** Registers the tables of the application. Called once, when it is imported. */
export function registerTables(application: ApplicationTables): void {
  declarations.push(...application.declarations)
  folders.push(application.migrations)
}

export const listDeclarations = (): readonly unknown[] => declarations

/**
 * The folder of the product is found through `imports` of package.json, which works both for the sources and for `dist`;
 * not when the module is loaded, because drizzle-kit loads it as CommonJS, without `import.meta`.
 */
export const listMigrationFolders = (): readonly string[] => [
  fileURLToPath(new URL('..', import.meta.resolve('#migrations/meta/_journal.json'))),
  ...folders,
]
