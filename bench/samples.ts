/** What the workloads ask for: the same rows and positions of every target, drawn by chance, alike in every run. */
import type { Sql } from './database.ts'
import { STEP } from './targets/ours.ts'
import type { Position, ProductRow } from './targets/target.ts'

export interface Samples {
  products: readonly ProductRow[]
  positions: readonly Position[]
}

const COUNT = 1_000

/** Shuffled by a hash of the id, which is the same in every run; a moment as PostgreSQL's text. */
export async function drawSamples(sql: Sql): Promise<Samples> {
  const products = await sql<ProductRow[]>`
    select id, sku, name, description, price_amount::float8, currency, stock::float8, status,
      created_at::text, updated_at::text, revision::float8
    from products order by md5(id::text) limit ${COUNT}`
  // Those at which a page of STEP users ends, the last page apart.
  const positions = await sql<Position[]>`
    select id, created_at::text from (
      select id, created_at, row_number() over (order by created_at desc, id desc) as place, count(*) over () as total
      from users where status = 'active') as listed
    where place % ${STEP} = 0 and place < total - 20
    order by md5(id::text) limit ${COUNT}`
  return { products: [...products], positions: [...positions] }
}
