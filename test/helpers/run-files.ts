/** Runs test files one after the other in one process, which loads the app only once. */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import t from 'tap'
import { keepDatabases } from './kept-databases.ts'

/** A test that waits for what never comes must not keep the others from being reported. */
const TEST_TIMEOUT_MS = 300_000

const folder = new URL('../', import.meta.url)
/** A file that is not in the list of durations yet. */
const DEFAULT_SECONDS = 1

/** Returns the paths in `test/` of the files that can share a process. */
const listFiles = (): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter(
      (path) =>
        path.endsWith('.test.ts') &&
        !path.endsWith('.isolated.test.ts') &&
        AREAS.has(dirname(path).split('/')[0] ?? ''),
    )
    .sort()

/** Folders with a file in `test/areas`. */
const AREAS = new Set(readdirSync(new URL('areas/', folder)).map((name) => name.replace('.test.ts', '')))

const isExtended = (path: string) => path.endsWith('.extended.test.ts')
/** Tests of the project's own list of resources run in a process without the fixtures: `test/fixtures/register.ts`. */
const usesOwnList = (path: string) => path.startsWith('resources/')

function readDurations(): Record<string, number> {
  const durations: Record<string, number> = JSON.parse(
    readFileSync(new URL('lanes/durations.json', folder), 'utf8'),
  )
  return durations
}

/**
 * Runs the files as the root test, in order. Each uses the root test as if it were alone. What it opened is closed before
 * the next file begins. With TEST_DURATIONS=1, prints the CPU time of each file (`npm run test:durations` stores it).
 */
async function runFiles(name: string, paths: readonly string[]): Promise<void> {
  // The limit of a file is too short for all of them, so that it begins again after each test.
  const extend = () => t.setTimeout(TEST_TIMEOUT_MS)
  t.on('subtestEnd', extend)
  extend()
  // Files register what they close on the root test, which would close it after the last file, and what runs before each
  // of their tests, which would go on to run in the files behind.
  const teardowns: (() => unknown)[] = []
  t.teardown = (teardown) => {
    teardowns.unshift(teardown)
  }
  const hooks: Parameters<typeof t.beforeEach>[0][] = []
  t.beforeEach(async (each) => {
    for (const hook of hooks) await hook(each)
  })
  t.beforeEach = (hook) => {
    hooks.push(hook)
  }
  const closeDatabases = keepDatabases()
  // A test may wait for a timer that does not keep the process alive.
  const keepAlive = setInterval(() => undefined, 60_000)
  for (const path of paths) {
    const before = process.cpuUsage()
    await import(new URL(path, folder).href)
    // Tests of the root run in order, so this one runs after those of the file.
    await t.test(`${path} closes what it opened`, async (t) => {
      hooks.length = 0
      for (const teardown of teardowns.splice(0)) await teardown()
      const { user, system } = process.cpuUsage(before)
      if (process.env.TEST_DURATIONS)
        t.comment(`duration ${path} ${Math.ceil((user + system) / 100_000) / 10}`)
    })
  }
  await t.test(`${name} has ended`, async () => {
    await closeDatabases()
    clearInterval(keepAlive)
  })
}

/**
 * Runs the test files of `test/<area>`.
 * @param isWanted chooses among the paths of the files below the folder
 */
export const runArea = (area: string, isWanted: (path: string) => boolean = () => true): Promise<void> =>
  runFiles(
    area,
    listFiles().filter((path) => path.startsWith(`${area}/`) && isWanted(path.slice(area.length + 1))),
  )

/** Runs the tests of the project's own list of resources. */
export const runOwnList = (kind: { extended: boolean }): Promise<void> =>
  runFiles(
    'own list',
    listFiles().filter((path) => usesOwnList(path) && isExtended(path) === kind.extended),
  )

/** Processes that run at the same time. Their tests wait for a third of the time, so that two processes would not keep two cores busy. */
const SHARE_COUNT = 3

/**
 * Runs the share of one process of the other files, so that all processes end at the same time. The last one has less: the
 * tests of the own list run after it.
 * @param share from 0
 */
export async function runShare(share: number, kind: { extended: boolean }): Promise<void> {
  const durations = readDurations()
  const getDuration = (path: string) => durations[path] ?? DEFAULT_SECONDS
  const files = listFiles().filter((path) => isExtended(path) === kind.extended)
  const own = files.filter(usesOwnList).reduce((sum, path) => sum + getDuration(path), 0)
  const shares = Array.from({ length: SHARE_COUNT }, (_, i) => ({
    seconds: i === SHARE_COUNT - 1 ? own : 0,
    paths: [] as string[],
  }))
  const others = files.filter((path) => !usesOwnList(path)).sort((a, b) => getDuration(b) - getDuration(a))
  for (const path of others) {
    const next = shares.reduce((least, each) => (each.seconds < least.seconds ? each : least))
    next.seconds += getDuration(path)
    next.paths.push(path)
  }
  await runFiles(`share ${share + 1}`, shares[share]?.paths.sort() ?? [])
}
