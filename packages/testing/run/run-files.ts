/** Runs test files one after the other in one process, which loads the app only once. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { keepDatabases } from '../src/kept-databases.ts'

/** A test that waits for what never comes must not keep the others from being reported. */
const TEST_TIMEOUT_MS = 300_000

const root = new URL('../../../', import.meta.url)
/** A file that is not in the list of durations yet. */
const DEFAULT_SECONDS = 1

/** The folders of tests, other than those of `deploy/`, which need programs. */
const FOLDERS = [
  'test',
  'scripts/test',
  ...readdirSync(new URL('packages/', root)).map((name) => `packages/${name}/test`),
]

const isExtended = (path: string) => path.endsWith('.extended.test.ts')

/**
 * Returns the paths of the test files that can share a process. Names that say more, such as `*.isolated.test.ts`, are of
 * tests with a script of their own.
 */
const listFiles = (folders: readonly string[]): string[] =>
  folders
    .filter((folder) => existsSync(new URL(folder, root)))
    .flatMap((folder) =>
      readdirSync(new URL(folder, root), { recursive: true, encoding: 'utf8' }).map(
        (path) => `${folder}/${path}`,
      ),
    )
    .filter((path) => /\/[^/.]+(\.extended)?\.test\.ts$/.test(path) && !path.includes('/node_modules/'))
    .sort()

/** `TEST_KINDS=extended` chooses the tests that only `npm run test:all` runs, `TEST_KINDS=all` these and the others. */
const isChosen = (path: string) => {
  const kinds = process.env.TEST_KINDS ?? 'usual'
  return kinds === 'all' || isExtended(path) === (kinds === 'extended')
}

const readDurations = (): Record<string, number> =>
  JSON.parse(readFileSync(new URL('durations.json', import.meta.url), 'utf8'))

/**
 * Runs the files as the root test, in order. Each uses the root test as if it were alone. What it opened is closed before the
 * next file begins. With TEST_DURATIONS=1, prints the CPU time of each file (`npm run test:durations` stores it).
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
    await import(new URL(path, root).href)
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

/** Runs the files of `TEST_FOLDERS`, such as `packages/http/test/limits`; several are separated by spaces. */
export async function runFolders(): Promise<void> {
  const folders = process.env.TEST_FOLDERS?.split(' ') ?? []
  const files = listFiles(folders)
  if (files.length === 0) throw new Error('TEST_FOLDERS names no folder with tests')
  await runFiles(folders.join(', '), files)
}

/** Processes that run at the same time. Their tests wait for a third of the time, so that two processes would not keep two cores busy. */
const SHARE_COUNT = 3

/**
 * Runs the share of one process of all files, so that all processes end at the same time.
 * @param share from 0
 */
export async function runShare(share: number): Promise<void> {
  const durations = readDurations()
  const getDuration = (path: string) => durations[path] ?? DEFAULT_SECONDS
  const shares = Array.from({ length: SHARE_COUNT }, () => ({ seconds: 0, paths: [] as string[] }))
  const files = listFiles(FOLDERS)
    .filter(isChosen)
    .sort((a, b) => getDuration(b) - getDuration(a))
  for (const path of files) {
    const next = shares.reduce((least, each) => (each.seconds < least.seconds ? each : least))
    next.seconds += getDuration(path)
    next.paths.push(path)
  }
  await runFiles(`share ${share + 1}`, shares[share]?.paths.sort() ?? [])
}
