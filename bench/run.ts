/** `npm run bench`: every target under every workload; a table, a plot, the figures. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { command, trust } from './command.ts'
import { toJson } from './finished.ts'
import { type Measured, measure } from './measure.ts'
import { readOptions } from './options.ts'
import { plot } from './plot.ts'
import { machine, type Results, table } from './report.ts'
import type { Run } from './started.ts'

import { targets as all } from './targets/index.ts'
import { workloads } from './workloads.ts'

async function compare(run: Run): Promise<void> {
  const { options, bench } = run
  const results: Results = new Map<string, Map<string, Measured[]>>()
  const targets = all.filter(({ name }) => options.targets.includes(name))
  for (const workload of workloads.filter(({ name }) => options.workloads.includes(name))) {
    results.set(workload.name, await measure(run, workload, targets))
  }
  const facts = machine(options, bench.version)
  mkdirSync(options.out, { recursive: true })
  const file = (name: string) => join(options.out, name)
  writeFileSync(file('RESULTS.md'), table(results, facts))
  writeFileSync(file('results.svg'), plot(results))
  writeFileSync(file('results.json'), toJson({ facts, results }))
  run.say(`Written to ${file('RESULTS.md')}`)
  trust([...results.values()].flatMap((measured) => [...measured.values()].flat()))
}

await command(
  () =>
    readOptions(
      'bench',
      [
        ...(['targets', 'workloads', 'seconds', 'warmup', 'rounds', 'connections', 'pool'] as const),
        ...(['generator', 'users', 'out', 'node', 'flags', 'profile'] as const),
      ],
      process.argv.slice(2),
    ),
  compare,
)
