/** `npm run bench:steady`: loads all workloads together and compares the last minute with the first. */
import { assertNoFailures, type BenchContext, runCommand } from './command.ts'
import { formatMeasurement, type Measurement, measureLoad } from './measure.ts'
import { readOptions } from './options.ts'
import type { Samples } from './samples.ts'
import { createCheckedCalls, FIRST_PORT, startTarget, type TargetProcess } from './target-process.ts'
import { serviceWithKey } from './targets/resource-api.ts'
import type { Call } from './targets/target.ts'
import { workloads } from './workloads.ts'

const MINUTE_SECONDS = 60
/** The share by which the last minute may be slower, more expensive or larger than the first. */
const MAX_CHANGE = 0.05
const MAX_MEMORY_MB = 300

/** Selects half of the products: updates use one half, so that the entity tags of the other half stay valid. */
const selectHalf = ({ products, ...others }: Samples, isUpdate: boolean): Samples => ({
  ...others,
  products: products.filter((_, i) => i % 2 === (isUpdate ? 0 : 1)),
})

/** Creates the requests of W1 to W7, with the same number for each workload. */
async function createMixture(context: BenchContext, target: TargetProcess): Promise<Call[]> {
  const callsByWorkload: (readonly Call[])[] = []
  for (const workload of workloads.filter(({ serviceOnly }) => !serviceOnly)) {
    const samples = selectHalf(context.samples, workload.name === 'W6')
    callsByWorkload.push(await createCheckedCalls(target, workload, { ...context, samples }))
  }
  const length = Math.max(...callsByWorkload.map((calls) => calls.length))
  return callsByWorkload.flatMap((calls) =>
    Array.from({ length }, (_, i) => calls[i % calls.length] ?? []).flat(),
  )
}

const getRate = ({ requests, seconds }: Measurement) => requests / seconds
const formatPercent = (share: number) => `${share < 0 ? '' : '+'}${(share * 100).toFixed(1)} %`
/** Returns the changes from the first to the last minute, one line each. */
function compareMinutes(first: Measurement, last: Measurement, all: readonly Measurement[]): string[] {
  const getChange = (figure: (minute: Measurement) => number) => figure(last) / figure(first) - 1
  const formatLine = (name: string, change: number, isWithinLimit: boolean) =>
    `${name}: ${formatPercent(change)}, ${isWithinLimit ? '' : 'NOT '}within ${MAX_CHANGE * 100} %`
  const rate = getChange(getRate)
  const cpu = getChange(({ server }) => server)
  const memory = getChange((minute) => minute.memory)
  const maxMemory = Math.max(...all.map((minute) => minute.memory))
  return [
    formatLine('requests per second', rate, rate >= -MAX_CHANGE),
    formatLine('CPU of the server per request', cpu, cpu <= MAX_CHANGE),
    formatLine('maximum resident memory of a minute', memory, memory <= MAX_CHANGE),
    `maximum resident memory: ${maxMemory.toFixed(0)} MB, ${maxMemory < MAX_MEMORY_MB ? '' : 'NOT '}under ${MAX_MEMORY_MB}`,
  ]
}

async function measureMinutes(context: BenchContext): Promise<void> {
  const { options } = context
  const target = await startTarget(context, serviceWithKey, FIRST_PORT, { name: 'steady', etags: false })
  const calls = await createMixture(context, target)
  const minutes: Measurement[] = []
  await measureLoad(context, target, calls, options.warmup)
  for (let i = 1; i <= options.minutes; i++) {
    const minute = await measureLoad(context, target, calls, MINUTE_SECONDS)
    minutes.push(minute)
    const line = `${formatMeasurement(minute)}, at most ${minute.memory.toFixed(0)} MB resident`
    console.log(`minute ${String(i).padStart(2)}: ${line}`)
  }
  const [first, last] = [minutes[0], minutes.at(-1)]
  if (first && last) {
    const lines = compareMinutes(first, last, minutes)
    console.log(['The last minute compared with the first:', ...lines].join('\n  '))
  }
  await target.stop()
  assertNoFailures(minutes)
}

await runCommand(
  () =>
    readOptions(
      'bench:steady',
      ['minutes', 'warmup', 'connections', 'pool', 'generator', 'users', 'node', 'flags'],
      process.argv.slice(2),
      { warmup: String(MINUTE_SECONDS) },
    ),
  measureMinutes,
)
