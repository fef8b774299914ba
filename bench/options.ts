/** What a run does, from the command line. */
import { parseArgs } from 'node:util'
import { startFlags } from './flags.ts'
import { bestGenerator, generators } from './load.ts'
import { targetNames } from './targets/index.ts'
import { workloadNames } from './workloads.ts'

export interface Options {
  targets: readonly string[]
  workloads: readonly string[]
  /** Of one measurement. */
  seconds: number
  /** Seconds before the first measurement, for the compiler of JavaScript. */
  warmup: number
  rounds: number
  minutes: number
  starts: number
  connections: number
  poolSize: number
  generator: string
  users: number
  /** The folder for the table, the plot and the figures. */
  out: string
  /** The Node.js that runs the servers, save Platformatic's, which needs a newer one. */
  node: string
  /** What it is given before the script: what `npm start` and the image give, and so what every target gets. */
  flags: readonly string[]
  /** A folder for CPU profiles of the servers; undefined: none. */
  profile: string | undefined
}

type Name = Exclude<keyof Options, 'poolSize'> | 'pool'

/** What stands behind the name, what it is, and what it is when nothing is said. */
const TABLE: Readonly<Record<Name, readonly [value: string, help: string, usual: string]>> = {
  targets: ['a,b', targetNames.join(', '), targetNames.join()],
  workloads: ['a,b', workloadNames.join(', '), workloadNames.join()],
  seconds: ['n', 'of one measurement', '5'],
  warmup: ['n', 'seconds before the first measurement', '4'],
  rounds: ['n', 'in which every target is measured once', '5'],
  minutes: ['n', 'of load', '10'],
  starts: ['n', 'of each kind', '10'],
  connections: ['n', 'kept alive', '32'],
  pool: ['n', 'connections to the database', '10'],
  generator: ['name', generators.join(', '), bestGenerator],
  users: ['n', 'the size of the data, where it is made anew', '10000'],
  out: ['folder', 'for RESULTS.md, results.svg, results.json', 'bench/out'],
  node: ['path', 'the Node.js of the servers', process.execPath],
  flags: ['a,b', 'what it is given', startFlags.join()],
  profile: ['folder', 'write a CPU profile of each server there', ''],
}

const helpOf = (command: string, names: readonly Name[]): string =>
  [
    `npm run ${command} -- [--option=value]`,
    ...names.map((name) => {
      const [value, help, usual] = TABLE[name]
      return `  ${`--${name} ${value}`.padEnd(19)} ${help}${usual && ` (${usual})`}`
    }),
  ].join('\n')

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

/**
 * @param usual what the command does otherwise than the others when nothing is said
 * @returns undefined where help was asked for, and given
 */
export function readOptions(
  command: string,
  names: readonly Name[],
  args: string[],
  usual: Partial<Record<Name, string>> = {},
): Options | undefined {
  const taken = Object.fromEntries(names.map((name) => [name, { type: 'string' } as const]))
  const { values } = parseArgs({ args, options: { ...taken, help: { type: 'boolean' } } })
  if (values.help) {
    console.log(helpOf(command, names))
    return undefined
  }
  const of = (name: Name): string => {
    const given = Object.entries(values).find(([each]) => each === name)?.[1]
    return typeof given === 'string' ? given : (usual[name] ?? TABLE[name][2])
  }
  return {
    targets: known(targetNames, of('targets')),
    workloads: known(workloadNames, of('workloads')),
    seconds: positive(of('seconds')),
    warmup: positive(of('warmup')),
    rounds: positive(of('rounds')),
    minutes: positive(of('minutes')),
    starts: positive(of('starts')),
    connections: positive(of('connections')),
    poolSize: positive(of('pool')),
    generator: known(generators, of('generator'))[0] ?? bestGenerator,
    users: positive(of('users')),
    out: of('out'),
    node: of('node'),
    flags: of('flags').split(','),
    profile: of('profile') || undefined,
  }
}
