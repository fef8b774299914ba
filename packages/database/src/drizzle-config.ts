/**
 * The configuration of drizzle-kit for the tables of an application. `push` drops what no file of tables declares, unless
 * it does not see it: the tables of the packages and of others are filtered out, and their sequences and enums declared.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, extname, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { getTableName, getViewName, is } from 'drizzle-orm'
import { isPgEnum, isPgSequence, PgTable, pgEnum, pgSequence } from 'drizzle-orm/pg-core'
import { DEFAULT_SCHEMA } from './client/schema.ts'
import { parseAddress } from './client/server/address.ts'
import { alignDeclarations } from './drizzle-kit/align-declarations.ts'
import type { DatabaseObjects } from './drizzle-kit/read-objects.ts'
import { isView } from './views.ts'

interface Folders {
  /** The folder with the files of tables. There is none without a resource. A relative path begins at the working directory. */
  tables: string
  /** The folder of the migrations. */
  migrations: string
}

/** What to do instead, by the command that needs a server and the schema `public`. */
const ALTERNATIVES = new Map([
  ['migrate', "Run the command 'migrate' of the service."],
  ['push', "Run 'npm run migrations -- --name what-changes', and then the command 'migrate' of the service."],
  ['pull', "The command 'new NAME --from public.table' reads one table."],
  ['studio', "The command 'copy --to' of the service copies the data to a server."],
])

/** A pattern that matches no name. Without patterns, `push` drops all tables. */
const NO_TABLE = '!*'

/** The modules of the folder `drizzle-kit` are TypeScript in the repository, and JavaScript in the installed package. */
const findModule = (name: string) => {
  const path = fileURLToPath(import.meta.url)
  return resolve(dirname(path), 'drizzle-kit', `${name}${extname(path)}`)
}

/** Declares what `push` would drop otherwise. */
let others: Readonly<Record<string, unknown>> = {}
export const getOthers = () => others

/**
 * Returns the configuration for `drizzle.config.ts`.
 * @throws Error if the command of drizzle-kit needs a server, and there is none, or one that it would damage
 */
export function drizzleConfig({ tables, migrations }: Folders) {
  const config = {
    dialect: 'postgresql' as const,
    // The second one is a file in each case: drizzle-kit refuses to run without one.
    schema: [`${tables}/*.ts`, relative('', findModule('others')).replaceAll('\\', '/')],
    out: migrations,
    migrations: { prefix: 'timestamp' as const },
  }
  const command = process.argv[2] ?? ''
  const alternative = ALTERNATIVES.get(command)
  if (alternative === undefined) return config
  const dbCredentials = getCredentials(command, alternative)
  if (command === 'studio' || command === 'pull') return { ...config, dbCredentials }
  const objects = readObjects(command)
  if (command === 'migrate') return { ...config, dbCredentials }
  const declarations = loadDeclarations(tables)
  const tablesFilter = listTableNames(declarations)
  others = declareOthers(objects, declarations, tablesFilter)
  alignDeclarations(declarations, objects)
  return { ...config, dbCredentials, tablesFilter: tablesFilter.length > 0 ? tablesFilter : [NO_TABLE] }
}

/** @throws Error if drizzle-kit cannot use the database, or would use another one than the service */
function getCredentials(command: string, alternative: string) {
  const { DATABASE_URL: url = '', DATABASE_SCHEMA: schema = DEFAULT_SCHEMA } = process.env
  if (url === '')
    throw new Error(
      `DATABASE_URL is not set, and 'drizzle-kit ${command}' cannot open the embedded database. ${alternative}`,
    )
  if (schema !== '' && schema !== DEFAULT_SCHEMA)
    throw new Error(
      `DATABASE_SCHEMA is ${schema}, and 'drizzle-kit ${command}' knows no schema but ${DEFAULT_SCHEMA}. ${alternative}`,
    )
  const { target, user, password, database, ssl, serverOptions } = parseAddress(url)
  if (serverOptions !== undefined)
    throw new Error(`drizzle-kit ignores the parameter "options" of DATABASE_URL. ${alternative}`)
  // drizzle-kit makes the path of a Unix socket from its folder and the port.
  const [host, port] =
    'path' in target
      ? [dirname(target.path), Number(extname(target.path).slice(1))]
      : [target.host, target.port]
  return { host, port, user, database, ssl, ...(password !== undefined && { password }) }
}

/** Reads the database in another process: drizzle-kit loads this module as CommonJS, and waits for nothing. */
function readObjects(command: string): DatabaseObjects {
  const program = findModule('read-objects')
  const typescript = extname(program) === '.ts' ? ['--import=tsx'] : []
  const { status, stdout, stderr } = spawnSync(process.execPath, [...typescript, program], {
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(stderr)
  const objects: DatabaseObjects = JSON.parse(stdout)
  const { pending, schema } = objects
  if (pending > 0)
    throw new Error(
      `The database lacks ${pending} migration${pending === 1 ? '' : 's'} of the packages, which come before those of the application. ${ALTERNATIVES.get('migrate')}`,
    )
  if (schema !== DEFAULT_SCHEMA)
    throw new Error(
      `The tables are in the schema ${schema}, and 'drizzle-kit ${command}' knows no schema but ${DEFAULT_SCHEMA}. ${ALTERNATIVES.get(command)}`,
    )
  return objects
}

/** Loads the files of tables as drizzle-kit does. */
function loadDeclarations(folder: string): unknown[] {
  const load = createRequire(resolve('drizzle.config.ts'))
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.ts')) : []
  return names.flatMap((name) => {
    const file: Record<string, unknown> = load(resolve(folder, name))
    return Object.values<unknown>(file)
  })
}

const listTableNames = (declarations: readonly unknown[]): string[] =>
  declarations.flatMap((each) => {
    if (is(each, PgTable)) return [getTableName(each)]
    return isView(each) ? [getViewName(each)] : []
  })

/** Declares the sequences and enums that the files of tables do not declare, as they are in the database. */
function declareOthers(
  { sequences, enums }: DatabaseObjects,
  declarations: readonly unknown[],
  tables: readonly string[],
): Record<string, unknown> {
  const known = new Set(
    declarations.flatMap((each) => {
      if (isPgSequence(each)) return [each.seqName]
      return isPgEnum(each) ? [each.enumName] : []
    }),
  )
  return Object.fromEntries([
    ...sequences
      // drizzle-kit takes those of the application's own columns for a part of their tables.
      .filter(({ name, table }) => !known.has(name) && !(table !== null && tables.includes(table)))
      .map(({ name, options }) => [`sequence ${name}`, pgSequence(name, options)]),
    ...enums
      .filter(({ name }) => !known.has(name))
      .map(({ name, values }) => [`enum ${name}`, pgEnum(name, values)]),
  ])
}
