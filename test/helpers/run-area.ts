/** Runs the test files of a folder one after the other in one process, which loads the app only once. */
import { readdirSync } from 'node:fs'
import t from 'tap'

/** A test that waits for what never comes must not keep the others from being reported. */
const TEST_TIMEOUT_MS = 300_000

/**
 * Runs the test files of `test/<area>`, without `*.isolated.test.ts`: those need a process of their own. Each file uses
 * the root test as if it were alone. What it opened is closed before the next file begins.
 * @param isWanted chooses among the paths of the files below the folder
 */
export async function runArea(area: string, isWanted: (path: string) => boolean = () => true): Promise<void> {
  const folder = new URL(`../${area}/`, import.meta.url)
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.test.ts') && !name.endsWith('.isolated.test.ts') && isWanted(name),
  )
  // The limit of a file is too short for all of them, so that it begins again after each test.
  const extend = () => t.setTimeout(TEST_TIMEOUT_MS)
  t.on('subtestEnd', extend)
  extend()
  // Files register what they close on the root test, which would close it after the last file.
  const teardowns: (() => unknown)[] = []
  t.teardown = (teardown) => {
    teardowns.unshift(teardown)
  }
  // A test may wait for a timer that does not keep the process alive.
  const keepAlive = setInterval(() => undefined, 60_000)
  for (const name of names.sort()) {
    await import(new URL(name, folder).href)
    // Tests of the root run in order, so this one runs after those of the file.
    await t.test(`${area}/${name} closes what it opened`, async () => {
      for (const teardown of teardowns.splice(0)) await teardown()
    })
  }
  await t.test(`${area} has ended`, async () => clearInterval(keepAlive))
}
