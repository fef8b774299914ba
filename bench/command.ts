/** What a command of the bench does around its work: the database, the samples, the end, the exit code. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openBench } from './database.ts'
import type { Options } from './options.ts'
import { stopAll } from './processes.ts'
import { drawSamples } from './samples.ts'
import type { Run } from './started.ts'

async function run(options: Options, work: (run: Run) => Promise<void>): Promise<void> {
  const bench = await openBench(options.users)
  const scratch = mkdtempSync(join(tmpdir(), 'resource-api-bench-'))
  try {
    // A run that failed has left its products.
    await bench.tidy()
    const samples = await drawSamples(bench.sql)
    await work({ bench, options, samples, scratch, say: console.log })
  } finally {
    await stopAll()
    await bench.close()
    rmSync(scratch, { recursive: true })
  }
}

/**
 * @param read yields nothing where help was all that was asked for
 * @param work throws where its figures stand for nothing
 */
export async function command(
  read: () => Options | undefined,
  work: (run: Run) => Promise<void>,
): Promise<void> {
  try {
    const options = read()
    if (options) await run(options, work)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  }
}

/** @throws Error where a request was not answered as it should be */
export function trust(figures: readonly { refused: number; broken: number }[]): void {
  if (figures.some(({ refused, broken }) => refused + broken > 0)) {
    throw new Error('Some requests were not answered as they should be: those figures stand for nothing')
  }
}
