/** No measurement without this: every target answers every workload rightly, or nothing is measured. */
import { isDeepStrictEqual } from 'node:util'
import type { Samples } from './samples.ts'
import type { ProductRow } from './targets/target.ts'
import { type Api, type Call, type Resource, send } from './targets/target.ts'
import { newProduct } from './targets/v1.ts'
import type { Truth } from './truth.ts'

export interface Asked {
  api: Api
  base: string
  calls: readonly Call[]
}

const LOOKS = 10
let looks = 0

/** Nine digits that no load uses: those begin with a one. */
const nextNumber = () => String(++looks).padStart(9, '0')

const show = (value: unknown) => JSON.stringify(value)?.slice(0, 1_000)

function same(found: unknown, wanted: unknown, what: string): void {
  if (!isDeepStrictEqual(found, wanted)) {
    throw new Error(`${what} is not as it should be\n  found:  ${show(found)}\n  wanted: ${show(wanted)}`)
  }
}

/** Of a new or changed product, what is not the server's to choose. */
const without = (resource: Resource | undefined, ...names: string[]) =>
  Object.fromEntries(Object.entries(resource ?? {}).filter(([name]) => !names.includes(name)))

const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** What stands around the data in version 1. */
function checkEnvelope({ data, meta, pagination }: Record<string, unknown>, path: string) {
  const timestamp = typeof meta === 'object' && meta !== null ? Reflect.get(meta, 'timestamp') : undefined
  if (!TIMESTAMP.test(String(timestamp))) throw new Error(`${path} has no meta.timestamp`)
  if (!Array.isArray(data)) return
  const { cursor, has_more } = Object(pagination)
  if (typeof cursor !== 'string' || has_more !== true) throw new Error(`${path} has no pagination`)
}

/** Asks, and reads the answer as this service would have given it. */
async function ask({ api, base }: Asked, call: Call, number?: string): Promise<Resource[]> {
  const { status, text } = await send(base, call, number)
  const what = `${call.method} ${call.path}`
  if (status !== 200 && status !== 201) throw new Error(`${what} is ${status}: ${text}`)
  if (api.exact) checkEnvelope(JSON.parse(text), what)
  return api.resources(text)
}

type Check = (asked: Asked, samples: Samples, truth: Truth) => Promise<void>

const read =
  (wanted: (truth: Truth, samples: Samples, i: number) => Promise<Resource[]>): Check =>
  async (asked, samples, truth) => {
    for (const [i, call] of asked.calls.slice(0, LOOKS).entries()) {
      same(await ask(asked, call), await wanted(truth, samples, i), call.path)
    }
  }

/** The thing at an index that a sample surely has. */
function at<T>(list: readonly T[], i: number): T {
  const found = list[i]
  if (found === undefined) throw new Error(`There are ${list.length} samples, and no ${i}`)
  return found
}

const created: Check = async (asked, _samples, truth) => {
  const number = nextNumber()
  const [told] = await ask(asked, at(asked.calls, 0), number)
  const [row] = await truth.created(number)
  const { search, ...wanted } = row ?? {}
  same(told, wanted, 'The new product')
  const sent: Resource = { ...newProduct, sku: `BENCH-${number}` }
  same(without(told, 'id', 'created_at', 'updated_at'), sent, 'The new product')
  same(search, `${sent.sku}\n${sent.name}\n${sent.description}`.toLowerCase(), 'Its text for the search')
}

const changed: Check = async (asked, { products }, truth) => {
  const { id }: ProductRow = at(products, 0)
  const number = `1${nextNumber().slice(1)}`
  const before = await truth.product(id)
  const [told] = await ask(asked, at(asked.calls, 0), number)
  const [row] = await truth.product(id)
  same(told, row, 'The changed product')
  const unchanged = without(before[0], 'stock', 'updated_at')
  same(without(row, 'updated_at'), { ...unchanged, stock: Number(number) }, 'The changed row')
  if (row?.updated_at === before[0]?.updated_at) throw new Error('The change left updated_at as it was')
}

const notModified: Check = async ({ base, calls }) => {
  for (const call of calls.slice(0, LOOKS)) {
    const { status, text } = await send(base, call)
    if (status !== 304 || text !== '') throw new Error(`${call.path} with its tag is ${status}: ${text}`)
  }
}

const checks: Readonly<Record<string, Check>> = {
  W1: read((truth, { products }, i) => truth.product(at(products, i).id)),
  W2: read((truth) => truth.newestProducts()),
  W3: read((truth, { positions }, i) => truth.usersAfter(at(positions, i))),
  W4: read((truth) => truth.newestOrdersWithUsers()),
  W5: created,
  W6: changed,
  W7: notModified,
}

/** @throws Error that says which answer is wrong */
export async function check(workload: string, asked: Asked, samples: Samples, truth: Truth): Promise<void> {
  const found = checks[workload]
  if (!found) throw new Error(`Nobody knows what a right answer to ${workload} is`)
  await found(asked, samples, truth)
}
