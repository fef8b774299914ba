/** Runs test files one after the other in one process, which loads the application only once. */
// biome-ignore lint/correctness/noUndeclaredDependencies: the application declares it, whose test runner loads this file.
import t from 'tap'
import { keepDatabases } from '../kept-databases.ts'

/** A test that waits for what never comes must not keep the others from being reported. */
const TEST_TIMEOUT_MS = 300_000

/**
 * Runs the files as the root test, in order. Each uses the root test as if it were alone. What it opened is closed before the
 * next file begins. With TEST_DURATIONS=1, prints the CPU time of each file (`npm run test:durations` stores it).
 * @param root the folder to which the paths are relative
 */
export async function runFiles(name: string, paths: readonly string[], root: URL): Promise<void> {
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
      t.pass()
      const { user, system } = process.cpuUsage(before)
      if (process.env.TEST_DURATIONS)
        t.comment(`duration ${path} ${Math.ceil((user + system) / 100_000) / 10}`)
    })
  }
  await t.test(`${name} has ended`, async (t) => {
    await t.resolves(closeDatabases())
    clearInterval(keepAlive)
  })
}
