/** Draws the rows and the cursor positions that the workloads request: the same ones for every target and run. */
import type { Sql } from './database.ts'
import type { Position, ProductRow } from './rows.ts'
import { CURSOR_PAGE_SIZE } from './targets/resource-api.ts'

export interface Samples {
  products: readonly ProductRow[]
  positions: readonly Position[]
}

const SAMPLE_SIZE = 1_000

/** Orders rows by a hash of their id: random, but the same in every run. */
export async function drawSamples(sql: Sql): Promise<Samples> {
  const products = await sql<ProductRow[]>`
    select id, sku, name, description, price_amount::float8, currency, stock::float8, status,
      created_at::text, updated_at::text, revision::float8
    from products order by md5(id::text) limit ${SAMPLE_SIZE}`
  // The last users of pages of CURSOR_PAGE_SIZE, at least 20 users before the end of the list.
  const positions = await sql<Position[]>`
    select id, created_at::text from (
      select id, created_at, row_number() over (order by created_at desc, id desc) as place, count(*) over () as total
      from users where status = 'active') as listed
    where place % ${CURSOR_PAGE_SIZE} = 0 and place < total - 20
    order by md5(id::text) limit ${SAMPLE_SIZE}`
  return { products: [...products], positions: [...positions] }
}
