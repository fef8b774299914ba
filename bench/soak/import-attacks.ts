/** Imports of one user that arrive slowly, that cost much, or that lock the rows of the user's other requests. */
import { setTimeout as wait } from 'node:timers/promises'
import { request } from 'undici'
import type { Database } from '../../packages/database/src/client/types.ts'
import {
  createEmptyLines,
  createLongRows,
  createRowsOfCommas,
  NDJSON,
  openImport,
} from '../../packages/testing/helpers/imports.ts'
import type { createMember } from './server.ts'

type Member = Awaited<ReturnType<typeof createMember>>

/** How often each status came. */
type Outcomes = Record<string, number>
/** Sends requests for some seconds to the address of the server. */
export type Attack = (url: string, seconds: number) => Promise<Outcomes>

const CONCURRENCY = 20
/** Between the end of a request and the next one of the same sender: 50 requests per second together. */
const PAUSE_MS = 400
/** Between two rows of a slow import. */
const ROW_PAUSE_MS = 250
const ROW_COUNT = 5_000
const CSV = { 'content-type': 'text/csv' }

/** Runs 20 senders, each of which sends one request after the other. */
const attack =
  (send: (url: string, sender: number, end: number) => Promise<number>): Attack =>
  async (url, seconds) => {
    const end = performance.now() + seconds * 1000
    const outcomes: Outcomes = {}
    const run = async (sender: number) => {
      while (performance.now() < end) {
        const outcome = await send(url, sender, end).catch(() => 'lost')
        outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
        await wait(PAUSE_MS)
      }
    }
    await Promise.all(Array.from({ length: CONCURRENCY }, (_, sender) => run(sender)))
    return outcomes
  }

async function send(
  url: string,
  method: 'POST' | 'PATCH',
  headers: Record<string, string>,
  body: Buffer | string,
): Promise<number> {
  const response = await request(url, { method, headers, body })
  await response.body.dump({ limit: Number.POSITIVE_INFINITY })
  return response.statusCode
}

/** Sends the same body as an import of the member's posts, again and again. */
const repeat = ({ headers }: Member, type: Record<string, string>, text: string): Attack => {
  const body = Buffer.from(text)
  return attack((url) => send(`${url}/users/me/posts`, 'POST', { ...headers, ...type }, body))
}

const post = (i: number) => `${JSON.stringify({ title: `Post ${i}`, body: 'Body' })}\n`

export const importAttacks: Readonly<
  Record<string, (database: Database, member: Member) => Promise<Attack>>
> = {
  'slow imports': async (_database, { headers }) =>
    attack(async (url, _sender, end) => {
      const open = await openImport(url, { path: '/users/me/posts', headers, start: post(0) })
      let isAnswered = false
      open.request.once('response', () => {
        isAnswered = true
      })
      for (let i = 1; performance.now() < end && !isAnswered; i++) {
        open.request.write(post(i))
        await wait(ROW_PAUSE_MS)
      }
      return (await open.end()).status
    }),
  'imports of 20 MB of empty lines': async (_database, member) =>
    repeat(member, CSV, createEmptyLines(20_000_000)),
  'imports of 40 rows of 900,000 commas': async (_database, member) =>
    repeat(member, CSV, createRowsOfCommas(40)),
  'imports of 49 rows of 1 MB': async (_database, member) => repeat(member, CSV, createLongRows(49)),
  'imports of 5,000 rows': async (_database, member) =>
    repeat(member, NDJSON, Array.from({ length: ROW_COUNT }, (_, i) => post(i)).join('')),
  /** The import locks a row at its beginning, and other requests of the user change it. */
  'changes of own rows beside an own import': async (database, { id, headers }) => {
    const products = await database.run(
      `insert into products (id, sku, name, price_amount, status, search)
       select gen_random_uuid(), $1 || n, 'Product', 1, 'draft', '' from generate_series(1, ${ROW_COUNT}) n
       returning id, sku`,
      [id],
    )
    await database.run(`update users set role = 'manager' where id = $1`, [id])
    let revision = 0
    return attack((url, sender) => {
      revision += 1
      const name = `Product ${revision}`
      const first = products[sender % 2]
      if (sender > 0) {
        const body = JSON.stringify({ name })
        const json = { 'content-type': 'application/json' }
        return send(`${url}/products/${first?.id}`, 'PATCH', { ...headers, ...json }, body)
      }
      const rows = products.map(({ sku }) => `${JSON.stringify({ sku, name })}\n`)
      return send(`${url}/products?on_conflict=sku`, 'POST', { ...headers, ...NDJSON }, rows.join(''))
    })
  },
}
