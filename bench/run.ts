/** `npm run bench`: measures every target under every workload, and writes the tables, the plot and results.json. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { assertNoFailures, type BenchContext, runCommand } from './command.ts'
import { type Measurement, measureWorkload } from './measure.ts'
import { readOptions } from './options.ts'
import { createPlot } from './plot.ts'
import { createReport, describeRun, type Results } from './report.ts'
import { serializeResults } from './results-json.ts'
import { targets as allTargets } from './targets/index.ts'
import { workloads } from './workloads.ts'

async function compareTargets(context: BenchContext): Promise<void> {
  const { options, database } = context
  const results: Results = new Map<string, Map<string, Measurement[]>>()
  const targets = allTargets.filter(({ name }) => options.targets.includes(name))
  for (const workload of workloads.filter(({ name }) => options.workloads.includes(name))) {
    results.set(workload.name, await measureWorkload(context, workload, targets))
  }
  const facts = describeRun(options, database.version)
  mkdirSync(options.out, { recursive: true })
  const toPath = (name: string) => join(options.out, name)
  writeFileSync(toPath('RESULTS.md'), createReport(results, facts))
  writeFileSync(toPath('results.svg'), createPlot(results))
  writeFileSync(toPath('results.json'), serializeResults({ facts, results }))
  console.log(`Written to ${toPath('RESULTS.md')}`)
  assertNoFailures([...results.values()].flatMap((rounds) => [...rounds.values()].flat()))
}

await runCommand(
  () =>
    readOptions(
      'bench',
      [
        ...(['targets', 'workloads', 'seconds', 'warmup', 'rounds', 'connections', 'pool'] as const),
        ...(['generator', 'users', 'out', 'node', 'flags', 'profile'] as const),
      ],
      process.argv.slice(2),
    ),
  compareTargets,
)
