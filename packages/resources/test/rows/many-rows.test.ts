/** The batch of the page about many rows, pasted into a shell, and its errors are answered as the page shows. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import t from 'tap'
import { ADMIN_KEY, type Json, testApp } from '../../../testing/helpers/app.ts'

const page = readFileSync(new URL('../../../../docs/callers/many-rows.md', import.meta.url), 'utf8')
const section = page.split('\n## Batches\n')[1]?.split('\n## ')[0] ?? ''
const readBlocks = (language: string) =>
  [...section.matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g'))].map(
    ([, text = '']) => text,
  )

/** Returns results with the members that the page shows, without what differs each time: ids, and the hashes of tags. */
const normalize = (results: Json[], shown: Json[]): Json => {
  const members = shown.map(({ body }) => body && Object.keys(body).filter((name) => name !== '...'))
  const pick = ({ body, ...result }: Json, i: number) => ({
    ...result,
    body: members[i] && Object.fromEntries(members[i].map((name: string) => [name, body?.[name]])),
  })
  const text = JSON.stringify(results.map(pick))
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<id>')
    .replace(/"(\d+)-[\w-]{12}\\"/g, '"$1-<tag>\\"')
  return JSON.parse(text)
}

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
  t.same(normalize(results, shown), normalize(shown, shown))

  const create = (body: Json) => ({ method: 'POST', path: '/users', body })
  const send = async (operations: Json[]) => (await admin.post('/batches', { operations })).body.error
  const joan = { name: 'Joan', email: 'joan@example.com' }
  for (const [expected, operations] of [
    [invalid, [create({ ...joan, name: '' }), create(joan), { method: 'DELETE', path: '/nothing/1' }]],
    [conflict, [create(joan), create({ ...joan, email: 'grace@example.com' })]],
  ] as const)
    t.same({ ...(await send([...operations])), request_id: '' }, { ...expected?.error, request_id: '' })
})
