/** A copy of the repository, in which tests run commands that change files. */
import { execFile, execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { type Owner, testFolder } from '../helpers/database.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** The options of tests of the shop, or of pages that show it: a project may have removed it. */
export const shopOptions = {
  skip: ['orders', 'posts', 'products'].every((name) =>
    existsSync(join(root, `plugins/resources/${name}.ts`)),
  )
    ? false
    : 'a resource of the shop was removed',
}

/** Links all packages into a folder of its own, so that caches below `node_modules` are the copy's own. */
function linkPackages(copy: string, folder: string) {
  mkdirSync(join(copy, folder), { recursive: true })
  for (const name of readdirSync(join(root, folder)).filter((each) => each !== '.cache')) {
    symlinkSync(join(root, folder, name), join(copy, folder, name))
  }
}

function copyFiles(owner: Owner): string {
  const copy = testFolder(owner)
  const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
  })
  for (const path of listed.split('\0').filter((each) => each !== '' && existsSync(join(root, each)))) {
    mkdirSync(dirname(join(copy, path)), { recursive: true })
    cpSync(join(root, path), join(copy, path))
  }
  linkPackages(copy, 'node_modules')
  linkPackages(copy, 'client/node_modules')
  return copy
}

interface Result {
  code: number
  stdout: string
  stderr: string
}

/** The options of a test file; they compile the copy into its own cache. */
export const TEST_OPTIONS = [
  '--require=./test/helpers/disable-processinfo.cjs',
  '--import=./test/helpers/typescript.js',
]

/** The arguments of Node.js that run the tests of these resources in one process, which loads the app only once. */
export const getTestArguments = (names: readonly string[]): string[] => [
  ...TEST_OPTIONS,
  '--input-type=module',
  '--eval',
  `import { runArea } from './test/helpers/run-files.ts'
   await runArea('resources', (path) => ${JSON.stringify(names)}.some((name) => path === name + '.test.ts'))`,
]

/** Copies the files that git knows or would know, with links to the packages. The copy is deleted after the test. */
export function copyRepository(owner: Owner) {
  const copy = copyFiles(owner)
  /** Runs Node.js in the copy. */
  const run = async (args: readonly string[]): Promise<Result> => {
    try {
      const result = await promisify(execFile)(process.execPath, args, { cwd: copy, maxBuffer: 1e8 })
      return { code: 0, ...result }
    } catch (error) {
      const { code, stdout = '', stderr = '' } = error as Partial<Result>
      return { code: code ?? -1, stdout, stderr }
    }
  }
  return {
    copy,
    run,
    read: (path: string) => readFileSync(join(copy, path), 'utf8'),
    runNew: (...args: string[]) => run(['--import', 'tsx', 'scripts/new/main.ts', ...args]),
  }
}
