/** The commands print their result, explain errors, and set their exit code. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { getName, listCommands, loadCommands, program } from '../src/program.ts'
import '../../../src/commands.ts'
import { resources } from '../../../src/resources.ts'
import { testApp } from '../../testing/helpers/app.ts'
import { runCommand } from '../../testing/helpers/command.ts'
import { testFolder } from '../../testing/helpers/database.ts'
import { findFreePort } from '../../testing/helpers/network.ts'

await loadCommands()
const NAMES = listCommands(program).map(getName)

test('--help lists every command, and no arguments show the help with exit code 2', async (t) => {
  const help = await runCommand(t, '--help')
  t.match(help, { code: 0, err: '' })
  for (const name of NAMES) t.match(help.out, new RegExp(`^ {2}${name} `, 'm'))
  t.same(await runCommand(t, ''), { code: 2, out: '', err: help.out })
  for (const same of ['-h', 'help']) t.same(await runCommand(t, same), help)
  for (const version of ['--version', '-V']) t.match((await runCommand(t, version)).out, /^\d+\.\d+\.\d+/)
})

test('--help of each command explains it and does nothing', async (t) => {
  for (const name of NAMES) {
    const { code, out } = await runCommand(t, `${name} --help`)
    t.equal(code, 0, name)
    t.match(out, new RegExp(`^Usage: npx resource-api ${name}`, 'm'))
  }
  const serve = (await runCommand(t, 'serve --help')).out
  t.match(
    serve,
    /^ {2}PORT +The port that the server listens on; 0 chooses a free port\. Default: `3000`\.$/m,
  )
  const { out } = await runCommand(t, 'copy --help')
  for (const short of ['copy -h', 'help copy']) t.equal((await runCommand(t, short)).out, out)
  const { out: keys } = await runCommand(t, 'api-keys create --help')
  for (const { name } of resources) t.match(keys, `${name}:read, ${name}:write`)
})

test('a word that begins commands lists them, with exit code 2 unless help was asked for', async (t) => {
  const group = await runCommand(t, 'users')
  t.equal(group.code, 2)
  for (const name of NAMES) t.equal(group.err.includes(`\n  ${name} `), name.startsWith('users '), name)
  t.match(await runCommand(t, 'users --help'), { code: 0, out: group.err })
})

test('unknown words are rejected with the name that was probably meant and exit code 2', async (t) => {
  for (const [typed, message] of [
    ['sed', "error: unknown command 'sed'\n(Did you mean seed?)\nTry 'npx resource-api --help'."],
    ['user create', "error: unknown command 'user'\n(Did you mean users?)"],
    ['users crate', "(Did you mean create?)\nTry 'npx resource-api users --help'."],
    ['users paint', "error: unknown command 'paint'\nTry 'npx resource-api users --help'."],
    [`${'u'.repeat(100_000)} create`, "error: unknown command 'uuu"],
    [
      'seed --ulr 5',
      "error: unknown option '--ulr'\n(Did you mean --url?)\nTry 'npx resource-api seed --help'.",
    ],
    ['users list -r admin', "error: unknown option '-r'"],
    ['users list --role amdin', "'amdin' is invalid. Allowed choices are member, manager, admin."],
    ['users list --json=yes', "error: unknown option '--json=yes'"],
    ['seed 1000', "error: too many arguments for 'seed'. Expected 0 arguments but got 1."],
    ['seed --url', "error: option '--url <url>' argument missing"],
    ['openapi --version 3', "'3' is invalid. It must be a whole number from 1 to 2."],
    ['constructor', "error: unknown command 'constructor'"],
  ] as const)
    t.match(await runCommand(t, typed), { code: 2, out: '', err: message }, typed.slice(0, 50))
})

test('a failing command says why, with exit code 1', async (t) => {
  t.match(await runCommand(t, 'migrate', { PORT: 'x', POOL_SIZE: '0' }), {
    code: 1,
    err: /^Invalid settings:\n {2}PORT .*\n {2}POOL_SIZE .*\n$/,
  })
  const DATABASE_URL = 'postgres://app:hunter2@127.0.0.1:1/there'
  const away = await runCommand(t, 'migrate', { DATABASE_URL })
  t.match(away, { code: 1, err: /^migrate failed: The database is unavailable/ })
  t.notMatch(away.err, /hunter2/)
})

test('openapi prints the document of a server with the default settings, independent of the environment', async (t) => {
  // The address of a server with the default settings.
  const { anybody } = await testApp(t, { PUBLIC_URL: 'http://127.0.0.1:3000' })
  const { code, out, err } = await runCommand(t, 'openapi --version 1', { NODE_ENV: 'production' })
  t.equal(code, 0, err)
  t.strictSame(JSON.parse(out), (await anybody.get('/openapi/v1.json')).body)
  const newest = JSON.parse((await runCommand(t, 'openapi')).out)
  t.strictSame(newest, (await anybody.get('/openapi/v2.json')).body, 'the newest version by default')
})

test('a command that calls a server names the address that does not answer, which has the port of PORT', async (t) => {
  const port = await findFreePort()
  const settings = { PORT: `${port}`, RESOURCE_API_KEY: 'rak_unknown' }
  const file = join(testFolder(t), 'rows.ndjson')
  writeFileSync(file, '{}\n')
  for (const command of ['seed', 'export products', `import products --file ${file}`]) {
    const { code, out, err } = await runCommand(t, command, settings)
    t.match(
      { code, out, err },
      {
        code: 1,
        out: '',
        err: new RegExp(
          `^\\w+ failed: .+ \\(http://127\\.0\\.0\\.1:${port}: connect ECONNREFUSED 127\\.0\\.0\\.1:${port}\\)\n$`,
        ),
      },
      command,
    )
  }
  t.match(await runCommand(t, 'seed', { ...settings, PORT: 'x' }), {
    code: 1,
    err: /^Invalid settings:\n {2}PORT .*\n$/,
  })
})
