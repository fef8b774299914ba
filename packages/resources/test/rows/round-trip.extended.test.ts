/**
 * The rows of a file make the round trip export, edit and import with `on_conflict` through curl, the client and the
 * command: 100,000 on a PostgreSQL server, and as many as the embedded database accepts.
 */
import { execFile } from 'node:child_process'
import { createReadStream, createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { createClient, ServerError } from '../../../client/src/index.ts'
import { ADMIN_KEY } from '../../../testing/helpers/app.ts'
import { runCommand } from '../../../testing/helpers/command.ts'
import { SERVER, testFolder } from '../../../testing/helpers/database.ts'
import { createServerSettings, startServer } from '../../../testing/helpers/process.ts'

const run = promisify(execFile)

/** Writes a file with other prices: the fifth column, except in every tenth row. */
async function edit(from: string, to: string): Promise<void> {
  async function* readEdited() {
    let number = 0
    for await (const line of createInterface({ input: createReadStream(from), crlfDelay: Infinity })) {
      const fields = line.split(',')
      if (number % 10 > 0) fields[4] = String(Number(fields[4]) + 1)
      number += 1
      yield `${fields.join()}\r\n`
    }
  }
  await pipeline(Readable.from(readEdited()), createWriteStream(to))
}

/** Sends rows again that a busy server has refused: an import is sent once. */
async function untilAdmitted<Result>(send: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await send()
    } catch (error) {
      if (!(error instanceof ServerError) || error.retryAfterMs === null) throw error
      await setTimeout(error.retryAfterMs)
    }
  }
}

async function makeRoundTrip(t: Test, settings: NodeJS.ProcessEnv, count: number) {
  const { url } = await startServer(t, { ...settings, ADMIN_API_KEY: ADMIN_KEY })
  const client = createClient({ baseUrl: url, apiKey: ADMIN_KEY })
  function* createRows() {
    for (let i = 1; i <= count; i += 1)
      yield { sku: `P-${i}`, name: `Product ${i}`, description: 'text'.repeat(20), price_amount: i }
  }
  const created = await untilAdmitted(() => client.products.import(createRows()))
  t.same(created, { created: count, updated: 0, unchanged: 0 })

  const folder = testFolder(t)
  const [exported, edited] = [join(folder, 'exported.csv'), join(folder, 'edited.csv')]
  const curl = async (...args: string[]) => {
    const options = ['-fsS', '--retry', '20', '--header', `X-API-Key: ${ADMIN_KEY}`]
    return (await run('curl', [...options, ...args])).stdout
  }

  await curl('--header', 'Accept: text/csv', '--output', exported, `${url}/products?sort=sku`)
  await edit(exported, edited)
  const products = `${url}/products?on_conflict=sku`
  const sent = await curl('--header', 'Content-Type: text/csv', '--data-binary', `@${edited}`, products)
  t.same(JSON.parse(sent).data, { created: 0, updated: 0.9 * count, unchanged: 0.1 * count })

  let sum = 0
  async function* readEdited() {
    sum = 0
    for await (const product of client.products.export()) {
      sum += product.price_amount - Number(product.sku.slice(2))
      yield { ...product, stock: product.price_amount % 2 }
    }
  }
  const counts = await untilAdmitted(() => client.products.import(readEdited(), { onConflict: 'sku' }))
  t.equal(sum, 0.9 * count, 'curl has changed the prices')
  t.match(counts, { created: 0, updated: Number, unchanged: Number })
  t.equal(counts.updated + counts.unchanged, count)

  const key = { RESOURCE_API_KEY: ADMIN_KEY }
  const copy = join(folder, 'copy.csv')
  t.match(await runCommand(t, `export products --url ${url} --format csv --output ${copy}`, key), { code: 0 })
  const args = `import products --url ${url} --file ${copy} --format csv --on-conflict sku`
  let imported = await runCommand(t, args, key)
  while (imported.err === 'import failed: The service is overloaded\n')
    imported = await runCommand(t, args, key)
  t.match(imported, { code: 0, out: `0 created, 0 updated, ${count} unchanged\n` })
}

/** The embedded database accepts 10,000 rows in one import. */
const COUNT = SERVER ? 100_000 : 10_000

t.test(`${COUNT} rows`, async (t) => {
  const settings = await createServerSettings(t)
  await makeRoundTrip(t, settings, COUNT)
})
