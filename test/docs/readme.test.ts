/** The first session of the README gets the replies that it shows, from a new server. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Test, test } from 'tap'
import { testFolder } from '../helpers/database.ts'

const root = new URL('../../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, root), 'utf8')

const { PATH = '', HOME = '' } = process.env
const SEPARATOR = '\u001e'

interface Turn {
  command: string
  /** The reply that the README shows, if it shows one. */
  answer: string | undefined
}

/** Returns the blocks of the section: a command and the reply below it. */
function readTurns(): Turn[] {
  const section = read('README.md').split('\n## First requests\n')[1]?.split('\n## ')[0] ?? ''
  const turns = section.matchAll(/```sh\n([\s\S]*?)```(?:\n```(?:json|text)\n([\s\S]*?)```)?/g)
  return [...turns].map(([, command = '', answer]) => ({ command, answer }))
}

/** Replaces what differs each time: ids, times, cursors, tags. */
const normalize = (text: string) =>
  text
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<id>')
    .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, '<time>')
    .replace(/"cursor":"[\w-]+"/g, '"cursor":"<cursor>"')
    .replace(/"(\d+)-[\w-]{12}"/g, '"$1-<tag>"')
    .trim()
    .split('\n')

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

test('the requests of the README get the replies that it shows', async (t) => {
  const folder = testFolder(t)
  const port = await start(t, folder)
  const turns = readTurns()
  t.ok(turns.length > 10)
  // One shell for all blocks: later blocks use the variables of earlier ones.
  const script = turns.map(({ command }) => `${command}\nprintf '\\036'\n`).join('')
  const answers = (await bash(script.replaceAll(':3000', `:${port}`), folder)).split(SEPARATOR)
  for (const [i, { command, answer = '' }] of turns.entries()) {
    t.same(normalize(answers[i] ?? ''), normalize(answer), command)
  }
})
