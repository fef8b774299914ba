/** The consumer of docs/events.md, which is a shell script with curl, follows the feed over kill -9 of the server. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ADMIN_KEY, createClient } from '../helpers/app.ts'
import { testFolder } from '../helpers/database.ts'
import { findFreePort } from '../helpers/network.ts'
import { createServerSettings, startServer } from '../helpers/process.ts'
import { waitUntil } from '../helpers/time.ts'

const page = readFileSync(new URL('../../docs/events.md', import.meta.url), 'utf8')
const script = /```sh\n(#!\/bin\/sh[\s\S]*?)```/.exec(page)?.[1] ?? ''

t.test('each change is appended once and in order, although the server was killed', async (t) => {
  const port = String(await findFreePort())
  const settings = { ...(await createServerSettings(t)), PORT: port, ADMIN_API_KEY: ADMIN_KEY }
  const folder = testFolder(t)
  const read = (file: string) =>
    existsSync(join(folder, file)) ? readFileSync(join(folder, file), 'utf8') : ''
  const readSkus = () =>
    read('events.jsonl')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line))
      .filter(({ type }) => type === 'products.created')
      .map(({ data }) => data.sku)

  const first = await startServer(t, settings)
  writeFileSync(join(folder, 'follow.sh'), script)
  const consumer = spawn('sh', ['follow.sh'], {
    cwd: folder,
    // curl and the loop are processes of the group.
    detached: true,
    env: { PATH: process.env.PATH, URL: first.url, API_KEY: ADMIN_KEY },
    stdio: 'ignore',
  })
  const hasExited = once(consumer, 'exit')
  t.teardown(() => {
    if (consumer.pid !== undefined) process.kill(-consumer.pid, 'SIGKILL')
    return hasExited
  })
  await waitUntil(() => read('cursor') !== '')

  const expected: string[] = []
  const createProducts = async (url: string) => {
    const client = createClient(url, { 'x-api-key': ADMIN_KEY })
    for (let i = 0; i < 20; i += 1) {
      const sku = `TEA-${expected.length + 1}`
      t.equal((await client.post('/products', { sku, name: 'Tea', price_amount: 500 })).status, 201)
      expected.push(sku)
    }
  }
  await createProducts(first.url)
  first.child.kill('SIGKILL')
  await first.ended
  const second = await startServer(t, settings)
  await createProducts(second.url)
  await waitUntil(() => readSkus().includes(expected.at(-1)))
  // Only the event whose block was cut when the server was killed may be repeated.
  t.same([...new Set(readSkus())], expected)
  t.ok(readSkus().length <= expected.length + 1)
})
