/** Parses the command-line options of the bench commands. */
import { parseArgs } from 'node:util'
import { defaultGenerator, generators } from './load.ts'
import { startFlags } from './start-flags.ts'
import { targetNames } from './targets/index.ts'
import { workloadNames } from './workloads.ts'

export interface Options {
  targets: readonly string[]
  workloads: readonly string[]
  /** What `bench:rows` measures. */
  parts: readonly string[]
  /** Rows of an export. */
  rows: number
  /** Seconds of one measurement. */
  seconds: number
  /** Seconds of load before the first measurement, for the JIT compiler. */
  warmup: number
  rounds: number
  /** Processes of each target, started one after another: V8's heuristics make some processes slower than others. */
  processes: number
  minutes: number
  starts: number
  connections: number
  poolSize: number
  generator: string
  users: number
  /** The workers that `bench:processes` compares with one; undefined compares processes behind HAProxy. */
  workers: number | undefined
  /** The folder for RESULTS.md, results.svg and results.json. */
  out: string
  /** The Node.js that runs the servers, except Platformatic's, which needs a newer one. */
  node: string
  /** Node.js flags of every server; by default those of `npm start` and of the image. */
  flags: readonly string[]
  /** The address of a database on the coordinator of a Citus cluster. */
  url: string
  /** The servers of `bench:addresses`. */
  at: readonly string[]
  /** A folder for CPU profiles of the servers; undefined writes none. */
  profile: string | undefined
}

/** The parts of `bench:rows`. */
const partNames = ['batches', 'exports', 'imports']

type OptionName = Exclude<keyof Options, 'poolSize'> | 'pool'

const OPTIONS: Readonly<Record<OptionName, readonly [value: string, help: string, defaultValue: string]>> = {
  targets: ['a,b', targetNames.join(', '), targetNames.join()],
  workloads: ['a,b', workloadNames.join(', '), workloadNames.join()],
  parts: ['a,b', partNames.join(', '), partNames.join()],
  rows: ['n', 'rows of an export', '1000000'],
  seconds: ['n', 'seconds of one measurement', '1'],
  warmup: ['n', 'seconds of load before the first measurement of a workload', '2'],
  rounds: ['n', 'rounds of each process; each round measures every target once', '4'],
  processes: ['n', 'processes of each target, one after another', '4'],
  minutes: ['n', 'minutes of load', '10'],
  starts: ['n', 'starts of each kind', '10'],
  connections: ['n', 'kept-alive connections', '32'],
  pool: ['n', 'connections to the database', '10'],
  generator: ['name', generators.join(', '), defaultGenerator],
  users: ['n', 'number of users, if the database is seeded', '10000'],
  workers: ['n', 'compare so many workers on one port with one', ''],
  out: ['folder', 'for RESULTS.md, results.svg, results.json', 'bench/out'],
  node: ['path', 'the Node.js that runs the servers', process.execPath],
  flags: ['a,b', 'the Node.js flags of the servers', startFlags.join()],
  url: ['address', 'a database of Citus, whose nodes run on this machine', ''],
  at: ['list', "servers that run already: 'name=url|database url', and '|process id' on this machine", ''],
  profile: ['folder', 'write a CPU profile of each server to this folder', ''],
}

const formatHelp = (command: string, names: readonly OptionName[]): string =>
  [
    `npm run ${command} -- [--option=value]`,
    ...names.map((name) => {
      const [value, help, defaultValue] = OPTIONS[name]
      return `  ${`--${name} ${value}`.padEnd(19)} ${help}${defaultValue && ` (${defaultValue})`}`
    }),
  ].join('\n')

const parseNames = (allowed: readonly string[], text: string): string[] =>
  text.split(',').map((name) => {
    if (allowed.includes(name)) return name
    throw new Error(`Unknown name "${name}"; use ${allowed.join(', ')}`)
  })

const parsePositiveInteger = (text: string): number => {
  const number = Number(text)
  if (Number.isInteger(number) && number > 0) return number
  throw new Error(`"${text}" is not a positive integer`)
}

/**
 * Parses the options of a command.
 * @param defaults the defaults that differ from those of the other commands
 * @returns undefined if `--help` was given; the help is printed
 */
export function readOptions(
  command: string,
  names: readonly OptionName[],
  args: string[],
  defaults: Partial<Record<OptionName, string>> = {},
): Options | undefined {
  const accepted = Object.fromEntries(names.map((name) => [name, { type: 'string' } as const]))
  const { values } = parseArgs({ args, options: { ...accepted, help: { type: 'boolean' } } })
  if (values.help) {
    console.log(formatHelp(command, names))
    return undefined
  }
  const getValue = (name: OptionName): string => {
    const value = Object.entries(values).find(([key]) => key === name)?.[1]
    return typeof value === 'string' ? value : (defaults[name] ?? OPTIONS[name][2])
  }
  return {
    targets: parseNames(targetNames, getValue('targets')),
    workloads: parseNames(workloadNames, getValue('workloads')),
    parts: parseNames(partNames, getValue('parts')),
    rows: parsePositiveInteger(getValue('rows')),
    seconds: parsePositiveInteger(getValue('seconds')),
    warmup: parsePositiveInteger(getValue('warmup')),
    rounds: parsePositiveInteger(getValue('rounds')),
    processes: parsePositiveInteger(getValue('processes')),
    minutes: parsePositiveInteger(getValue('minutes')),
    starts: parsePositiveInteger(getValue('starts')),
    connections: parsePositiveInteger(getValue('connections')),
    poolSize: parsePositiveInteger(getValue('pool')),
    generator: parseNames(generators, getValue('generator'))[0] ?? defaultGenerator,
    users: parsePositiveInteger(getValue('users')),
    workers: getValue('workers') ? parsePositiveInteger(getValue('workers')) : undefined,
    out: getValue('out'),
    node: getValue('node'),
    flags: getValue('flags').split(','),
    url: getValue('url'),
    at: getValue('at').split(',').filter(Boolean),
    profile: getValue('profile') || undefined,
  }
}
