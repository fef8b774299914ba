/** `doctor`: checks the installation and changes nothing. */
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Command } from '@commander-js/extra-typings'
import { type Database, openDatabase } from '@resource-api/database'
import { parseAddress } from '@resource-api/database/client'
import { FolderInUse } from '@resource-api/database/errors'
import { type Config, ConfigError } from '@resource-api/http/config'
import { describeOldNode } from '@resource-api/http/node-version'
import { openShared, readSchemaConfig, schemaOption } from './database.ts'
import { checkDatabase } from './doctor/check-database.ts'
import { checkDisk, checkSecrets, checkTls, formatBytes } from './doctor/check-files.ts'
import { checkRedis, checkReplicas } from './doctor/check-services.ts'
import { attempt, type Finding, fail, formatError, ok, warn } from './doctor/finding.ts'

/** Checks what is in the tables, when they are those of this release. */
type CheckTables = (database: Database, config: Config) => Promise<Finding>

interface Options {
  schema?: string
  json?: true
}

function checkNode(version: string): Finding {
  const message = describeOldNode(version)
  return message === undefined ? ok('Node.js', version) : fail('Node.js', message, 'Install a later version.')
}

/** @returns the settings, or one finding for each invalid setting */
function readSettings(options: Options): { config?: Config; findings: Finding[] } {
  try {
    const config = readSchemaConfig(options)
    const valid = ok('settings', `All settings are valid for NODE_ENV=${config.NODE_ENV}`)
    return { config, findings: [valid] }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const advice = 'Correct this environment variable. The other checks need it and were not made.'
    return { findings: error.problems.map((problem) => fail('settings', problem, advice)) }
  }
}

async function openServer(url: string, config: Config): Promise<{ database?: Database; finding: Finding }> {
  const { label } = parseAddress(url)
  try {
    const database = await openDatabase({
      ...{ url, schema: config.DATABASE_SCHEMA, poolSize: 1 },
      ...{ replicaUrls: config.DATABASE_REPLICA_URLS, replicaLag: config.REPLICA_LAG * 1000 },
    })
    const startedAt = performance.now()
    const [row] = await database.run("select current_setting('server_version') as version")
    const latency = (performance.now() - startedAt).toFixed(1)
    const message = `PostgreSQL ${row?.version} at ${label} answers in ${latency} ms`
    return { database, finding: ok('database', message) }
  } catch (error) {
    const message = formatError(`${label} cannot be used`, error)
    const advice = 'Check DATABASE_URL and the server. The other checks of the database were not made.'
    return { finding: fail('database', message, advice) }
  }
}

/** Opens the embedded database only if it exists, because opening would create it. */
async function openFolder(config: Config): Promise<{ database?: Database; finding: Finding }> {
  const folder = resolve(config.DATA_DIR)
  if (!existsSync(join(folder, 'postgres')))
    return { finding: ok('database', `There is no database in ${folder} yet; the first start creates it`) }
  try {
    const database = await openShared(config)
    return { database, finding: ok('database', `The embedded database in ${folder} can be opened`) }
  } catch (error) {
    if (error instanceof FolderInUse) {
      const advice = 'To check the database too, repeat this when that process has started or ended.'
      return { finding: warn('database', `${folder} is in use by another process`, advice) }
    }
    const message = formatError(`${folder} cannot be opened`, error)
    return { finding: fail('database', message, 'Restore a backup, or set another DATA_DIR.') }
  }
}

const checkDatabaseSize = (database: Database): Promise<Finding> =>
  attempt('disk', 'Check the server.', async () => {
    const [row] = await database.run('select pg_database_size(current_database()) as size')
    return ok('disk', `The database has ${formatBytes(Number(row?.size))}`)
  })

/** Makes all checks, in the order in which a start would depend on them. */
async function* diagnose(options: Options, checkTables: CheckTables): AsyncGenerator<Finding> {
  yield checkNode(process.versions.node)
  const { config, findings } = readSettings(options)
  yield* findings
  if (!config) return
  const { DATABASE_URL: url } = config
  const { database, finding } = url === undefined ? await openFolder(config) : await openServer(url, config)
  try {
    yield finding
    const isMigrated = database ? yield* checkDatabase(database, config) : false
    if (url === undefined) yield checkDisk(config)
    else if (database) yield await checkDatabaseSize(database)
    if (database) yield* checkReplicas(database, config)
    yield* checkRedis(config)
    if (database && isMigrated) yield await checkTables(database, config)
    yield* checkSecrets(config)
    yield* checkTls(config)
  } finally {
    await database?.close()
  }
}

const CHECK_WIDTH = 10
const STATUS_WIDTH = 'warning'.length

function formatFinding({ check, status, message, advice }: Finding): string {
  const line = `${status.padEnd(STATUS_WIDTH)}  ${check.padEnd(CHECK_WIDTH)}  ${message}`
  return advice === undefined ? line : `${line}\n${' '.repeat(STATUS_WIDTH + CHECK_WIDTH + 4)}${advice}`
}

/** @throws Error if a check failed */
async function run(options: Options, checkTables: CheckTables): Promise<void> {
  const findings: Finding[] = []
  for await (const finding of diagnose(options, checkTables)) {
    findings.push(finding)
    if (!options.json) console.log(formatFinding(finding))
  }
  if (options.json) console.log(JSON.stringify(findings, null, 2))
  const failed = findings.filter(({ status }) => status === 'failed').length
  if (failed > 0) throw new Error(`${failed} of ${findings.length} checks failed`)
}

export const createDoctor = (checkTables: CheckTables) =>
  new Command('doctor')
    .description('Check the settings, the database and other services')
    .addOption(schemaOption)
    .option('--json', 'Print a JSON array of objects with check, status, message and advice')
    .addHelpText(
      'after',
      `
Each check is ok, warning or failed, with what to do. Exit code 1 if a check failed; warnings count as success. Changes
nothing: applies no migration and creates no file. Secrets are not printed. Servers may run at the same time.`,
    )
    .action((options) => run(options, checkTables))
