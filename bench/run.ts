/** `npm run bench`: every target under every workload; a table, a plot, the figures. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openBench } from './database.ts'
import { type Measured, measure } from './measure.ts'
import { type Options, readOptions } from './options.ts'
import { plot } from './plot.ts'
import { stopAll } from './processes.ts'
import { machine, type Results, table } from './report.ts'
import { drawSamples } from './samples.ts'
import { targets as all } from './targets/index.ts'
import { workloads } from './workloads.ts'

async function run(options: Options): Promise<boolean> {
  const bench = await openBench(options.users)
  const scratch = mkdtempSync(join(tmpdir(), 'resource-api-bench-'))
  const results: Results = new Map<string, Map<string, Measured[]>>()
  try {
    const samples = await drawSamples(bench.sql)
    const targets = all.filter(({ name }) => options.targets.includes(name))
    for (const workload of workloads.filter(({ name }) => options.workloads.includes(name))) {
      const measured = await measure(
        { bench, options, samples, scratch, say: console.log },
        workload,
        targets,
      )
      results.set(workload.name, measured)
    }
    await bench.tidy()
    const facts = machine(options, bench.version)
    mkdirSync(options.out, { recursive: true })
    const file = (name: string) => join(options.out, name)
    writeFileSync(file('RESULTS.md'), table(results, facts))
    writeFileSync(file('results.svg'), plot(results))
    const figures = [...results].map(([name, measured]) => [name, Object.fromEntries(measured)])
    writeFileSync(file('results.json'), `${JSON.stringify(Object.fromEntries(figures), null, 1)}\n`)
    console.log(`Written to ${file('RESULTS.md')}`)
  } finally {
    await stopAll()
    await bench.close()
    rmSync(scratch, { recursive: true })
  }
  const rounds = [...results.values()].flatMap((measured) => [...measured.values()].flat())
  return rounds.every(({ refused, broken }) => refused + broken === 0)
}

try {
  const options = readOptions(process.argv.slice(2))
  if (options && !(await run(options))) {
    console.error('Some requests were not answered as they should be: those figures stand for nothing')
    process.exitCode = 1
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
}
