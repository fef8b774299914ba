/** The server and the commands read `.env` of the folder in which they run; variables of the environment win. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { testFolder } from '../../../testing/helpers/database.ts'

const root = fileURLToPath(new URL('../../../../', import.meta.url))
const LOADER = join(root, 'packages/testing/run/typescript.js')

for (const [file, ...args] of [['server.ts'], ['cli.ts', 'jobs', 'list']])
  t.test(`src/${file} reads the file`, async (t) => {
    const folder = testFolder(t)
    /** Returns what a process in the folder says of its settings. */
    const run = async (settings: NodeJS.ProcessEnv) => {
      const flags = ['--conditions=resource-api', `--import=${LOADER}`]
      const child = spawn(process.execPath, [...flags, join(root, `src/${file}`), ...args], {
        cwd: folder,
        env: { PATH: process.env.PATH, ...settings },
        stdio: ['ignore', 'ignore', 'pipe'],
      })
      t.teardown(() => child.kill('SIGKILL'))
      const [said, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
      t.equal(code, 1)
      return said
    }
    const expected = (value: string) =>
      `Invalid settings:\n  POOL_SIZE must be an integer from 1 to 1000, not "${value}"\n`

    writeFileSync(join(folder, '.env'), "# A comment\nexport POOL_SIZE='many'\nLOG_LEVEL=info\n")
    t.equal(await run({}), expected('many'))
    t.equal(await run({ POOL_SIZE: 'few' }), expected('few'), 'the environment wins')
    rmSync(join(folder, '.env'))
    t.equal(await run({ POOL_SIZE: 'few' }), expected('few'), 'there need be no file')
    mkdirSync(join(folder, '.env'))
    t.match(await run({}), /^The file \.env cannot be read: .*\n$/)
  })
