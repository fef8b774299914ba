/** Following the cursors of a list returns every row that exists throughout exactly once. */
import { setTimeout } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import type { Database } from '../../../database/src/client/index.ts'
import { testApp } from '../../../testing/helpers/app.ts'
import { collectIds, getIds } from '../../../testing/helpers/replies.ts'
import { type Collection, createCollections } from './sortable-collections.ts'

const LASTING = 20
const PASSING = 12

const { admin, database, person } = await testApp(t)
const { id: owner } = await person('member')
const collections = await createCollections(database, owner)

/** Rows that come, change and go for as long as `isOver` says no. */
async function churn(on: Database, { table, insert }: Collection, seed: number, isOver: () => boolean) {
  let n = seed
  let round = 0
  const passing = new Map<number, string>()
  while (!isOver()) {
    // PGlite answers before the event loop turns: the walk must have its turns too.
    await setTimeout(2)
    // Steps that are prime to the number of rows, so that each has its turn.
    n = (n + 7) % PASSING
    round += 1
    const id = passing.get(n)
    if (id === undefined) {
      passing.set(n, await insert(LASTING + n))
    } else if (round % 3 === 0) {
      const moved = `2026-01-01T00:00:00.00000${round % 4}Z`
      await on.run(
        `update ${table} set created_at = $2, updated_at = $2, revision = revision + 1 where id = $1`,
        [id, moved],
      )
    } else {
      await on.run(`delete from ${table} where id = $1`, [id])
      passing.delete(n)
    }
  }
  for (const id of passing.values()) await on.run(`delete from ${table} where id = $1`, [id])
}

/** Walks while rows come and go: what came of those that lasted, in order. */
async function walkAmid(collection: Collection, query: string, seed: number, lasting: ReadonlySet<string>) {
  let isOver = false
  const churning = churn(database, collection, seed, () => isOver)
  try {
    const seen = await collectIds(admin, `${collection.path}?${query}`)
    return seen.filter((id) => lasting.has(id))
  } finally {
    isOver = true
    await churning
  }
}

for (const collection of collections) {
  const { path, table, sorts, everyValue, insert } = collection
  t.test(
    `${table}: the pages contain every unchanged row once while others are inserted and deleted`,
    async (t) => {
      if (table !== 'users') for (let n = 0; n < LASTING; n++) await insert(n)
      const all = await database.run(`select id from ${table}`)
      const lasting = new Set(all.map(({ id }) => String(id)))

      const walk = async (query: string, sort: string, seed: number) => {
        const still = getIds(await admin.get(`${path}?limit=100&sort=${sort}`))
        t.equal(still.length, lasting.size)
        t.same(await walkAmid(collection, `${query}&sort=${sort}`, seed, lasting), still, `${query} ${sort}`)
      }
      for (const sort of sorts.flatMap((name) => [name, `-${name}`])) await walk('limit=9', sort, sort.length)
      for (const sort of ['created_at', `-created_at,${sorts[0]}`])
        await walk(`${everyValue}&limit=9&fields=id`, sort, sort.length)

      const several = fc
        .shuffledSubarray([...sorts], { minLength: 2 })
        .chain((names) => fc.tuple(...names.map((name) => fc.constantFrom(name, `-${name}`))))
      const walks = fc.tuple(several, fc.integer({ min: 3, max: 12 }), fc.nat(100))
      const property = fc.asyncProperty(walks, ([terms, limit, seed]) =>
        walk(`limit=${limit}`, terms.join(), seed),
      )
      await fc.assert(property, { numRuns: 4, endOnFailure: true })
    },
  )
}
