/** The requests of the README and of the quick start get the responses that they show, each from a new server. */
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
const normalize = (text: string) =>
  text
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<id>')
    .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, '<time>')
    .replace(/"cursor":"[\w-]+"/g, '"cursor":"<cursor>"')
    .replace(/"(\d+)-[\w-]{12}"/g, '"$1-<tag>"')
    .replace(/^id: [\w-]+$/gm, 'id: <cursor>')
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

const startBash = (script: string, folder: string) =>
  spawn('bash', ['-c', script], { cwd: folder, env: { PATH, HOME }, stdio: ['ignore', 'pipe', 'inherit'] })

async function bash(script: string, folder: string): Promise<string> {
  const shell = startBash(script, folder)
  let said = ''
  for await (const chunk of shell.stdout) said += chunk
  return said
}

for (const [page, heading, count] of [
  ['README.md', 'Start', 2],
  ['docs/quick-start.md', 'First requests', 12],
] as const) {
  test(`the requests of ${page} get the responses that it shows`, async (t) => {
    const folder = testFolder(t)
    const port = await start(t, folder)
    const turns = readTurns(page, heading)
    t.ok(turns.length >= count)
    // One shell for all blocks: later blocks use the variables of earlier ones.
    const script = turns.map(({ command }) => `${command}\nprintf '\\036'\n`).join('')
    const answers = (await bash(script.replaceAll(':3000', `:${port}`), folder)).split(SEPARATOR)
    for (const [i, { command, answer = '' }] of turns.entries()) {
      t.same(normalize(answers[i] ?? ''), normalize(answer), command)
    }
  })
}

test('the stream of docs/quick-start.md shows the changes that are made in another terminal', async (t) => {
  const page = 'docs/quick-start.md'
  const folder = testFolder(t)
  const port = await start(t, folder)
  const usePort = (script: string) => script.replaceAll(':3000', `:${port}`)
  const [setUp] = readTurns(page, 'First requests')
  const [follow, write] = readTurns(page, 'Following changes')
  const shown = /```text\n([\s\S]*?)```/.exec(read(page).split('\n## Following changes\n')[1] ?? '')?.[1]
  // It ends with the server.
  const stream = startBash(usePort(`exec 2> /dev/null; ${follow?.command}`), folder)
  let said = ''
  for await (const chunk of stream.stdout) {
    const isOpen = said !== ''
    said += chunk
    if (!isOpen) await bash(usePort(`${setUp?.command}\n${write?.command}`), folder)
    if (/products\.updated.*\n\n$/.test(said)) break
  }
  t.same(normalize(said), normalize(shown ?? ''))
})
