/** `npm run bench:steady`: all workloads at once, minute after minute; whether it ends as fast and as small as it began. */
import { command, trust } from './command.ts'
import { type Measured, measureOnce, told } from './measure.ts'
import { watchMemory } from './memory.ts'
import { readOptions } from './options.ts'
import type { Samples } from './samples.ts'
import { callsTo, FIRST_PORT, type Run, type Started, startTarget } from './started.ts'
import { spreadOf } from './statistics.ts'
import { oursWithKey } from './targets/ours.ts'
import type { Call } from './targets/target.ts'
import { workloads } from './workloads.ts'

const MINUTE = 60
/** What the end may lack of the beginning, and have more of than it. */
const SLACK = 0.05
/** Megabytes. */
const MOST = 200

interface Minute extends Measured {
  /** Megabytes, second by second. */
  memory: number[]
}

/** What is changed is another half of the products than what is asked for with its tag, which then stays good. */
const halved = ({ products, ...others }: Samples, changed: boolean): Samples => ({
  ...others,
  products: products.filter((_, i) => i % 2 === (changed ? 0 : 1)),
})

/** The requests of all workloads, of each equally many. */
async function mixture(run: Run, started: Started): Promise<Call[]> {
  const each: (readonly Call[])[] = []
  for (const workload of workloads) {
    const samples = halved(run.samples, workload.name === 'W6')
    each.push(await callsTo(started, workload, { ...run, samples }))
  }
  const most = Math.max(...each.map(({ length }) => length))
  return each.flatMap((calls) => Array.from({ length: most }, (_, i) => calls[i % calls.length] ?? []).flat())
}

const rate = ({ requests, seconds }: Measured) => requests / seconds
const percent = (share: number) => `${share < 0 ? '' : '+'}${(share * 100).toFixed(1)} %`
const megabytes = (memory: readonly number[]) => {
  const { median, least, most } = spreadOf(memory)
  return `${median.toFixed(0)} MB (${least.toFixed(0)}-${most.toFixed(0)})`
}

/** The last minute beside the first. */
function judge(first: Minute, last: Minute, all: readonly Minute[]): string[] {
  const change = (figure: (minute: Minute) => number) => figure(last) / figure(first) - 1
  const line = (what: string, by: number, isRight: boolean) =>
    `${what}: ${percent(by)}, ${isRight ? 'as it should be' : 'NOT as it should be'}`
  const [faster, dearer, larger] = [
    change(rate),
    change(({ server }) => server),
    change(({ memory }) => spreadOf(memory).median),
  ]
  const most = Math.max(...all.flatMap(({ memory }) => memory))
  return [
    line('requests a second', faster, faster >= -SLACK),
    line('CPU of the server for each', dearer, dearer <= SLACK),
    line('resident memory', larger, larger <= SLACK),
    `resident memory at most: ${most.toFixed(0)} MB, ${most < MOST ? '' : 'NOT '}under ${MOST}`,
  ]
}

async function steady(run: Run): Promise<void> {
  const { options, say } = run
  const started = await startTarget(run, oursWithKey, FIRST_PORT, { name: 'steady', etags: false })
  const calls = await mixture(run, started)
  const memory = watchMemory(started.pid)
  const minutes: Minute[] = []
  try {
    await measureOnce(run, started, calls, options.warmup)
    for (let minute = 1; minute <= options.minutes; minute++) {
      memory.seen()
      const measured = { ...(await measureOnce(run, started, calls, MINUTE)), memory: memory.seen() }
      minutes.push(measured)
      say(`minute ${String(minute).padStart(2)}: ${told(measured)}, ${megabytes(measured.memory)} resident`)
    }
  } finally {
    memory.end()
  }
  const [first, last] = [minutes[0], minutes.at(-1)]
  if (first && last) say(['The last minute beside the first:', ...judge(first, last, minutes)].join('\n  '))
  await started.stop()
  trust(minutes)
}

await command(
  () =>
    readOptions(
      'bench:steady',
      ['minutes', 'warmup', 'connections', 'pool', 'generator', 'users', 'node', 'flags'],
      process.argv.slice(2),
      { warmup: String(MINUTE) },
    ),
  steady,
)
