/**
 * The requests of the README and then those of the quick start, on one server, get the responses that the pages show. So
 * do those of the quick start alone.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Test, test } from 'tap'
import { testFolder } from '../../packages/testing/helpers/database.ts'
import { waitUntil } from '../../packages/testing/helpers/time.ts'
import { shopOptions } from './git-clone.ts'

const root = new URL('../../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, root), 'utf8')

const { PATH = '', HOME = '' } = process.env
const SEPARATOR = '\u001e'
const QUICK_START = 'docs/callers/quick-start.md'

interface Turn {
  command: string
  /** The response that the page shows, if it shows one. */
  answer: string | undefined
}

/** Returns the blocks of a section: a command and the response below it. */
function readTurns(page: string, heading: string): Turn[] {
  const section = read(page).split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? ''
  const turns = section.matchAll(/```sh\n([\s\S]*?)```(?:\n```(?:json|text)\n([\s\S]*?)```)?/g)
  return [...turns].map(([, command = '', answer]) => ({ command, answer }))
}

/** Replaces what differs each time: ids, times, cursors, tags. */
const replaceVarying = (text: string) =>
  text
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<id>')
    .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, '<time>')
    .replace(/"cursor": ?"[\w-]+"/g, '"cursor":"<cursor>"')
    .replace(/"(\d+)-[\w-]{12}"/g, '"$1-<tag>"')
    .replace(/^id: [\w-]+$/gm, 'id: <cursor>')
    .trim()

/** Returns the JSON values of an output, however they are broken into lines; without JSON, its lines. */
function normalize(text: string): unknown[] {
  const varied = replaceVarying(text)
  if (!varied.startsWith('{')) return varied.split('\n')
  return varied.split(/\n(?=\{)/).map((value) => JSON.parse(value))
}

/** Starts a server in an empty folder with an empty environment, and returns its port. */
function start(t: Test, folder: string): Promise<string> {
  const server = spawn(
    process.execPath,
    ['--liftoff-only', fileURLToPath(new URL('dist/src/server.js', root))],
    { cwd: folder, env: { PATH, HOME, PORT: '0' }, stdio: ['ignore', 'pipe', 'inherit'] },
  )
  t.teardown(async () => {
    server.kill()
    if (server.exitCode === null) await once(server, 'exit')
  })
  let said = ''
  return new Promise((resolve, reject) => {
    server.stdout.on('data', (chunk) => {
      said += chunk
      const port = /Ready at http:\/\/127\.0\.0\.1:(\d+)/.exec(said)?.[1]
      if (port !== undefined) resolve(port)
    })
    server.once('exit', () => reject(new Error(`The server ended: ${said}`)))
  })
}

const startBash = (script: string, folder: string) =>
  spawn('bash', ['-c', script], { cwd: folder, env: { PATH, HOME }, stdio: ['ignore', 'pipe', 'inherit'] })

async function bash(script: string, folder: string): Promise<string> {
  const shell = startBash(script, folder)
  let said = ''
  for await (const chunk of shell.stdout) said += chunk
  return said
}

const readme = readTurns('README.md', 'First requests')
const firstRequests = readTurns(QUICK_START, 'First requests')

/**
 * Runs the blocks of a page in one shell, since later blocks use the variables of earlier ones. Compares the responses.
 * The shell has the key, as a terminal into which its line was pasted.
 */
async function follow(t: Test, turns: readonly Turn[], folder: string, port: string) {
  const key = /export KEY=.*/.exec(readFileSync(join(folder, 'data/first-credentials'), 'utf8'))?.[0]
  const script = turns.map(({ command }) => `${command}\nprintf '\\036'\n`).join('')
  const answers = (await bash(`${key}\n${script.replaceAll(':3000', `:${port}`)}`, folder)).split(SEPARATOR)
  for (const [i, { command, answer = '' }] of turns.entries()) {
    t.same(normalize(answers[i] ?? ''), normalize(answer), command)
  }
}

test('the README shows the plugin of products as it is', shopOptions, async (t) => {
  const [, shown] = /```ts\n(\/\*\* Products[\s\S]*?)```/.exec(read('README.md')) ?? []
  t.equal(shown, read('plugins/products.ts'))
})

test('README and quick start on one server show its responses', shopOptions, async (t) => {
  const folder = testFolder(t)
  const port = await start(t, folder)
  t.ok(readme.length >= 3 && firstRequests.length >= 7)
  await follow(t, readme, folder, port)
  await follow(t, firstRequests, folder, port)
  const usePort = (...turns: (Turn | undefined)[]) =>
    turns.map((turn) => turn?.command.replaceAll(':3000', `:${port}`)).join('\n')
  const [setUp] = firstRequests

  await t.test('the stream shows the changes that are made in another terminal', async (t) => {
    const [stream, write] = readTurns(QUICK_START, 'Following changes')
    const shown = /```text\n([\s\S]*?)```/.exec(read(QUICK_START).split('\n## Following changes\n')[1] ?? '')
    // A stream begins at the feed's end, which the changes above reach a moment after their responses.
    await waitUntil(async () => {
      const list = 'api "$API/events?type=products.updated&fields=type"'
      return (await bash(`${usePort(setUp)}\n${list}`, folder)).includes('"type":"products.updated"')
    })
    // It ends with the server.
    const shell = startBash(`exec 2> /dev/null\n${usePort(stream)}`, folder)
    let said = ''
    for await (const chunk of shell.stdout) {
      const isOpen = said !== ''
      said += chunk
      if (!isOpen) await bash(usePort(setUp, write), folder)
      if (/products\.updated.*\n\n$/.test(said)) break
    }
    // A comment with the position is sent every five seconds, also between the events on a busy machine.
    const [first = '', ...others] = said.split(/(?<=\n\n)/)
    const shownOnly = [first, ...others.filter((part) => part.includes('\ndata: '))].join('')
    t.same(normalize(shownOnly), normalize(shown?.[1] ?? ''))
  })

  await t.test('the admin signs in', async (t) => {
    const [signIn] = readTurns(QUICK_START, 'Signing in')
    t.match(await bash(usePort(setUp, signIn), folder), '"email":"admin@example.com"')
  })
})

test('the requests of the quick start alone get the responses that it shows', shopOptions, async (t) => {
  const folder = testFolder(t)
  await follow(t, firstRequests, folder, await start(t, folder))
})
