/** `npm run bench`: measures every target under every workload, and writes the tables, the plot and results.json. */
import { assertNoFailures, type BenchContext, runCommand } from './command.ts'
import { measureTargets } from './measure.ts'
import { readOptions } from './options.ts'
import { createComparison, describeRun, writeRun } from './report.ts'
import { targets } from './targets/index.ts'
import { workloads } from './workloads.ts'

/** The defaults of `--quick`: an answer within three minutes, from the fewest processes that give a 95 % interval. */
const QUICK = {
  ...(process.env.BENCH_BASELINE
    ? { targets: 'baseline-key,ours-key', workloads: 'W1,W2,W6' }
    : { targets: 'reference,equal,ours-key', workloads: 'W1,W6' }),
  processes: '6',
  rounds: '1',
}

async function compareTargets(context: BenchContext): Promise<void> {
  const { options, database } = context
  const results = await measureTargets(
    context,
    targets.filter(({ name }) => options.targets.includes(name)),
    workloads.filter(({ name }) => options.workloads.includes(name)),
  )
  writeRun(options.out, { facts: describeRun(options, database.version), results })
  console.log(`\n${createComparison(results)}\n\nWritten to ${options.out}`)
  assertNoFailures(Object.values(results).flatMap((byTarget) => Object.values(byTarget).flat(2)))
}

const args = process.argv.slice(2)
const isQuick = args.includes('--quick')

await runCommand(
  () =>
    readOptions(
      'bench',
      [
        ...(['targets', 'workloads', 'seconds', 'warmup', 'rounds', 'processes', 'connections'] as const),
        ...(['pool', 'generator', 'users', 'out', 'node', 'flags', 'profile'] as const),
      ],
      args.filter((arg) => arg !== '--quick'),
      isQuick ? QUICK : {},
    ),
  compareTargets,
)
