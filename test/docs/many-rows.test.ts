/** The batch of the page about many rows, pasted into a shell, and its errors are answered as the page shows. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import t from 'tap'
import { ADMIN_KEY, type Json, testApp } from '../helpers/app.ts'

const page = readFileSync(new URL('../../docs/many-rows.md', import.meta.url), 'utf8')
const section = page.split('\n## Batches\n')[1]?.split('\n## ')[0] ?? ''
const readBlocks = (language: string) =>
  [...section.matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g'))].map(
    ([, text = '']) => text,
  )

/** Replaces what differs each time: ids, and the hashes of tags. */
const normalize = (value: unknown): Json =>
  JSON.parse(
    JSON.stringify(value)
      .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<id>')
      .replace(/"(\d+)-[\w-]{12}\\"/g, '"$1-<tag>\\"'),
  )

/** Returns the members of a resource that the page shows before its dots. */
const pickShown = (shown: Json | null, body: Json | null) =>
  shown &&
  body &&
  Object.fromEntries(Object.keys(shown).flatMap((name) => (name === '...' ? [] : [[name, body[name]]])))

t.test('the batch and its errors are those of the page', async (t) => {
  const { admin, base } = await testApp(t)
  const [command = ''] = readBlocks('sh')
  const [answer, invalid, conflict] = readBlocks('json').map((text): Json => JSON.parse(text))
  const { id } = (await admin.post('/users', { name: 'Ada', email: 'ada@example.com' })).body.data
  for (const name of ['Ada King', 'Ada Lovelace']) await admin.patch(`/users/${id}`, { name })

  const env = { PATH: process.env.PATH, API: `${base}/api/v1`, KEY: ADMIN_KEY, ID: id }
  const { stdout } = await promisify(execFile)('bash', ['-c', command], { env })
  const shown: Json[] = answer?.data.results
  const results: Json[] = JSON.parse(stdout).data?.results ?? t.comment(stdout)
  t.same(
    normalize(results.map((result, i) => ({ ...result, body: pickShown(shown[i]?.body, result.body) }))),
    normalize(shown.map((result) => ({ ...result, body: pickShown(result.body, result.body) }))),
  )

  const create = (body: Json) => ({ method: 'POST', path: '/users', body })
  const send = async (operations: Json[]) => (await admin.post('/batches', { operations })).body.error
  const joan = { name: 'Joan', email: 'joan@example.com' }
  const errors = [
    [invalid, [create({ ...joan, name: '' }), create(joan), { method: 'DELETE', path: '/nothing/1' }]],
    [conflict, [create(joan), create({ ...joan, email: 'grace@example.com' })]],
  ] as const
  for (const [expected, operations] of errors) {
    t.same({ ...(await send([...operations])), request_id: '' }, { ...expected?.error, request_id: '' })
  }
})
