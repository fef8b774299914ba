/** Runs test files one after the other in one process, which loads the app only once. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { runFiles } from '../src/run/run-files.ts'

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

/** Runs the files of `TEST_FOLDERS`, such as `packages/http/test/limits`; several are separated by spaces. */
export async function runFolders(): Promise<void> {
  const folders = process.env.TEST_FOLDERS?.split(' ') ?? []
  const files = listFiles(folders)
  if (files.length === 0) throw new Error('TEST_FOLDERS names no folder with tests')
  await runFiles(folders.join(', '), files, root)
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
  await runFiles(`share ${share + 1}`, shares[share]?.paths.sort() ?? [], root)
}
