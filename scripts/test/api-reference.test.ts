/** Checks docs/callers/api-reference.md: its examples get the responses that it shows, and its tables of errors are complete. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import t from 'tap'
import { ADMIN_KEY, type Json, testApp } from '../../packages/testing/helpers/app.ts'

const text = readFileSync(new URL('../../docs/callers/api-reference.md', import.meta.url), 'utf8')
/** Characters of a line of code that fit on a page of GitHub, which has 830 pixels. */
const MAX_CODE_LENGTH = 98
const SEPARATOR = '\u001e'

/** Replaces what differs each time: ids, times, cursors, which the page abbreviates, and tags. */
const normalize = (output: string) =>
  output
    .replaceAll('\r', '')
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<id>')
    .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, '<time>')
    .replace(/("cursor": ?"|[?&]cursor=)[\w.-]+/g, '$1<cursor>')
    .replace(/"(\d+)-[\w-]{12}"/g, '"$1-<tag>"')

/** Splits an output into its lines before the JSON, and the JSON without messages, whose wording may change. */
function parseOutput(output: string): { lines: string[]; body: Json } {
  const normalized = normalize(output)
  const start = normalized.search(/^\{/m)
  const [lines, json] = start === -1 ? [normalized] : [normalized.slice(0, start), normalized.slice(start)]
  const withoutMessages = (name: string, value: unknown) => (name === 'message' ? undefined : value)
  return {
    lines: lines.split('\n').filter((line) => line !== ''),
    body: json === undefined ? undefined : JSON.parse(json, withoutMessages),
  }
}

t.test('the examples get the responses that the page shows', async (t) => {
  const { base } = await testApp(t)
  const examples = [...text.matchAll(/```sh\n([\s\S]*?)```(?:\n+```(?:json|text)\n([\s\S]*?)```)?/g)]
  t.ok(examples.length > 10)
  // One shell for all examples: later ones use the variables of earlier ones.
  const script = examples.map(([, command]) => `${command}\nprintf '\\036'\n`).join('')
  const local = script.replaceAll('http://localhost:3000', base)
  const env = { ...process.env, KEY: ADMIN_KEY }
  const { stdout } = await promisify(execFile)('bash', ['-c', local], { env })
  const outputs = stdout.split(SEPARATOR)
  for (const [i, [, command = '', shown]] of examples.entries()) {
    if (shown === undefined) continue
    const expected = parseOutput(shown)
    const received = parseOutput(outputs[i] ?? '')
    t.same(received.body, expected.body, command)
    for (const line of expected.lines)
      t.ok(received.lines.includes(line), `${line} in the response to ${command}`)
  }
})

t.test('no line of code is wider than a page of GitHub', async (t) => {
  const blocks = [...text.matchAll(/^```\w*\n([\s\S]*?)^```/gm)].map(([, code = '']) => code)
  t.ok(blocks.length > 10)
  const lines = blocks.flatMap((code) => code.split('\n'))
  t.same(
    lines.filter((line) => line.length > MAX_CODE_LENGTH),
    [],
  )
})
