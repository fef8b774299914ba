/** Runs the example session of the README against a new server and compares every reply. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Test, test } from 'tap'
import { testFolder } from './helpers/database.ts'

const root = new URL('../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, root), 'utf8')

const { PATH = '', HOME = '' } = process.env
const SEPARATOR = '\u001e'

interface Turn {
  command: string
  /** What the README shows; undefined where it shows nothing. */
  answer: string | undefined
}

/** The blocks of the conversation: a command, and the answer below it. */
function conversation(): Turn[] {
  const section = read('README.md').split('\n## A first conversation\n')[1]?.split('\n## ')[0] ?? ''
  const turns = section.matchAll(/```sh\n([\s\S]*?)```(?:\n```(?:json|text)\n([\s\S]*?)```)?/g)
  return [...turns].map(([, command = '', answer]) => ({ command, answer }))
}

/** What differs each time: ids, times, cursors, tags. */
const settled = (text: string) =>
  text
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<id>')
    .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, '<time>')
    .replace(/"cursor":"[\w-]+"/g, '"cursor":"<cursor>"')
    .replace(/"(\d+)-[\w-]{12}"/g, '"$1-<tag>"')
    .trim()
    .split('\n')

/** A server in an empty folder and an empty environment, and where it listens. */
function start(t: Test, folder: string): Promise<string> {
  const server = spawn(
    process.execPath,
    [
      '--import',
      import.meta.resolve('./helpers/typescript.js'),
      fileURLToPath(new URL('src/server.ts', root)),
    ],
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

async function bash(script: string, folder: string): Promise<string> {
  const shell = spawn('bash', ['-c', script], {
    cwd: folder,
    env: { PATH, HOME },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let said = ''
  for await (const chunk of shell.stdout) said += chunk
  return said
}

test('the conversation runs as it is printed', async (t) => {
  const folder = testFolder(t)
  const port = await start(t, folder)
  const turns = conversation()
  t.ok(turns.length > 10)
  // One shell for all, so that what a block sets is there for the next.
  const script = turns.map(({ command }) => `${command}\nprintf '\\036'\n`).join('')
  const answers = (await bash(script.replaceAll(':3000', `:${port}`), folder)).split(SEPARATOR)
  for (const [i, { command, answer = '' }] of turns.entries()) {
    t.same(settled(answers[i] ?? ''), settled(answer), command)
  }
})
