/** Runs a bench command: opens the database, draws the samples, closes everything and sets the exit code. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type BenchDatabase, openBenchDatabase } from './database.ts'
import type { Options } from './options.ts'
import { stopAllProcesses } from './processes.ts'
import { drawSamples, type Samples } from './samples.ts'

export interface BenchContext {
  database: BenchDatabase
  options: Options
  samples: Samples
  /** A temporary folder, deleted at the end of the command. */
  temporaryFolder: string
}

async function runWithDatabase(
  options: Options,
  work: (context: BenchContext) => Promise<void>,
): Promise<void> {
  const database = await openBenchDatabase(options.users)
  const temporaryFolder = mkdtempSync(join(tmpdir(), 'resource-api-bench-'))
  try {
    const samples = await drawSamples(database.sql)
    await work({ database, options, samples, temporaryFolder })
  } finally {
    await stopAllProcesses()
    await database.close()
    rmSync(temporaryFolder, { recursive: true })
  }
}

/**
 * Runs a command and sets exit code 1 if it fails.
 * @param readCommandOptions returns undefined if `--help` was given
 * @param work throws if its measurements are not valid
 */
export async function runCommand(
  readCommandOptions: () => Options | undefined,
  work: (context: BenchContext) => Promise<void>,
): Promise<void> {
  try {
    const options = readCommandOptions()
    if (options) await runWithDatabase(options, work)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  }
}

/** @throws Error if a request failed or was rejected */
export function assertNoFailures(measurements: readonly { refused: number; broken: number }[]): void {
  if (measurements.some(({ refused, broken }) => refused + broken > 0)) {
    throw new Error('Some requests failed: the measurements are not valid')
  }
}
