/** What a run does, from the command line. */
import { parseArgs } from 'node:util'
import { bestGenerator, generators } from './load.ts'
import { targetNames } from './targets/index.ts'
import { workloadNames } from './workloads.ts'

export interface Options {
  targets: readonly string[]
  workloads: readonly string[]
  /** Of one measurement. */
  seconds: number
  /** Before the first round, for the compiler of JavaScript. */
  warmup: number
  rounds: number
  connections: number
  poolSize: number
  generator: string
  users: number
  /** The folder for the table, the plot and the figures. */
  out: string
  /** The Node.js that runs the servers, save Platformatic's, which needs a newer one. */
  node: string
  /** A folder for CPU profiles of the servers; undefined: none. */
  profile: string | undefined
}

const HELP = `npm run bench -- [options]
  --targets a,b     ${targetNames.join(', ')} (default: all)
  --workloads a,b   ${workloadNames.join(', ')} (default: all)
  --seconds n       of one measurement (5)
  --warmup n        seconds before the first round (4)
  --rounds n        in which every target is measured once (5)
  --connections n   kept alive (32)
  --pool n          connections to the database (10)
  --generator name  ${generators.join(', ')} (wrk, where there is one)
  --users n         the size of the data, where it is made anew (10000)
  --out folder      for RESULTS.md, results.svg, results.json (bench/out)
  --node path       the Node.js of the servers (this one)
  --profile folder  write a CPU profile of each server there`

const DEFAULTS = {
  targets: targetNames.join(),
  workloads: workloadNames.join(),
  seconds: '5',
  warmup: '4',
  rounds: '5',
  connections: '32',
  pool: '10',
  generator: bestGenerator,
  users: '10000',
  out: 'bench/out',
  node: process.execPath,
}

const known = (names: readonly string[], wanted: string): string[] =>
  wanted.split(',').map((name) => {
    if (names.includes(name)) return name
    throw new Error(`There is no ${name}; there are ${names.join(', ')}`)
  })

const positive = (text: string): number => {
  const number = Number(text)
  if (Number.isInteger(number) && number > 0) return number
  throw new Error(`${text} is no number from 1`)
}

/** @returns undefined where help was asked for, and given */
export function readOptions(args: string[]): Options | undefined {
  const text = { type: 'string' } as const
  const { values } = parseArgs({
    args,
    options: {
      ...{ targets: text, workloads: text, seconds: text, warmup: text, rounds: text, connections: text },
      ...{
        pool: text,
        generator: text,
        users: text,
        out: text,
        node: text,
        profile: text,
        help: { type: 'boolean' },
      },
    },
  })
  if (values.help) {
    console.log(HELP)
    return undefined
  }
  const given = { ...DEFAULTS, ...values }
  return {
    targets: known(targetNames, given.targets),
    workloads: known(workloadNames, given.workloads),
    seconds: positive(given.seconds),
    warmup: positive(given.warmup),
    rounds: positive(given.rounds),
    connections: positive(given.connections),
    poolSize: positive(given.pool),
    generator: known(generators, given.generator)[0] ?? bestGenerator,
    users: positive(given.users),
    out: given.out,
    node: given.node,
    profile: values.profile,
  }
}
