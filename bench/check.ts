/** Checks the responses of every target before a workload is measured. */
import { isDeepStrictEqual } from 'node:util'
import type { ExpectedRows } from './expected-rows.ts'
import type { ProductRow } from './rows.ts'
import type { Samples } from './samples.ts'
import { type Api, type Call, type Resource, send } from './targets/target.ts'
import { newProduct } from './targets/version1-api.ts'

export interface CheckedTarget {
  api: Api
  base: string
  calls: readonly Call[]
}

/** Requests checked for each workload. */
const MAX_CHECKED_CALLS = 10
let checkedWrites = 0

/** Returns nine digits that no load sends: the numbers of a load begin with 1. */
const nextNumber = () => String(++checkedWrites).padStart(9, '0')

const formatValue = (value: unknown) => JSON.stringify(value)?.slice(0, 1_000)

function assertEqual(actual: unknown, expected: unknown, subject: string): void {
  if (!isDeepStrictEqual(actual, expected)) {
    throw new Error(
      `${subject} differs from the expected value\n  actual:   ${formatValue(actual)}\n  expected: ${formatValue(expected)}`,
    )
  }
}

const omitFields = (resource: Resource | undefined, ...names: string[]) =>
  Object.fromEntries(Object.entries(resource ?? {}).filter(([name]) => !names.includes(name)))

const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** Checks the fields of a version 1 envelope other than `data`. */
function checkEnvelope({ data, meta, pagination }: Record<string, unknown>, path: string) {
  const timestamp = typeof meta === 'object' && meta !== null ? Reflect.get(meta, 'timestamp') : undefined
  if (!TIMESTAMP.test(String(timestamp))) throw new Error(`${path} has no meta.timestamp`)
  if (!Array.isArray(data)) return
  const { cursor, has_more } = Object(pagination)
  if (typeof cursor !== 'string' || has_more !== true) throw new Error(`${path} has no pagination`)
}

/** Sends a call and returns the resources of its response in the form of version 1. */
async function fetchResources(
  { api, base }: CheckedTarget,
  call: Call,
  number?: string,
): Promise<Resource[]> {
  const { status, text } = await send(base, call, number)
  const subject = `${call.method} ${call.path}`
  if (status !== 200 && status !== 201) throw new Error(`${subject} returned ${status}: ${text}`)
  if (api.hasVersion1Envelope) checkEnvelope(JSON.parse(text), subject)
  return api.resources(text)
}

type Check = (target: CheckedTarget, samples: Samples, expectedRows: ExpectedRows) => Promise<void>

const createReadCheck =
  (readExpected: (expectedRows: ExpectedRows, samples: Samples, i: number) => Promise<Resource[]>): Check =>
  async (target, samples, expectedRows) => {
    for (const [i, call] of target.calls.slice(0, MAX_CHECKED_CALLS).entries()) {
      assertEqual(await fetchResources(target, call), await readExpected(expectedRows, samples, i), call.path)
    }
  }

/** Returns the element at an index. @throws Error if the list is shorter */
function getElement<T>(list: readonly T[], i: number): T {
  const element = list[i]
  if (element === undefined) throw new Error(`Element ${i} of a list of ${list.length} was requested`)
  return element
}

const checkCreate: Check = async (target, _samples, expectedRows) => {
  const number = nextNumber()
  const [response] = await fetchResources(target, getElement(target.calls, 0), number)
  const [row] = await expectedRows.createdProduct(number)
  const { search, ...expected } = row ?? {}
  assertEqual(response, expected, 'The response of the creation')
  const sent: Resource = { ...newProduct, sku: `BENCH-${number}` }
  assertEqual(omitFields(response, 'id', 'created_at', 'updated_at'), sent, 'The new product')
  assertEqual(search, `${sent.sku}\n${sent.name}\n${sent.description}`.toLowerCase(), 'The search column')
}

const checkUpdate: Check = async (target, { products }, expectedRows) => {
  const { id }: ProductRow = getElement(products, 0)
  const [before] = await expectedRows.product(id)
  // Nine digits, and another stock than that of a former run: an equal one would change nothing.
  const number = String(100_000_000 + ((Number(before?.stock) + 1) % 100_000_000))
  const [response] = await fetchResources(target, getElement(target.calls, 0), number)
  const [row] = await expectedRows.product(id)
  assertEqual(response, row, 'The response of the update')
  const unchanged = omitFields(before, 'stock', 'updated_at')
  assertEqual(omitFields(row, 'updated_at'), { ...unchanged, stock: Number(number) }, 'The updated row')
  if (row?.updated_at === before?.updated_at) throw new Error('The update did not change updated_at')
}

const checkOrder: Check = async (target, _samples, expectedRows) => {
  const [response] = await fetchResources(target, getElement(target.calls, 0))
  const [row] = await expectedRows.order(String(response?.id))
  assertEqual(response, row, 'The response of the order')
}

const checkNotModified: Check = async ({ base, calls }) => {
  for (const call of calls.slice(0, MAX_CHECKED_CALLS)) {
    const { status, text } = await send(base, call)
    if (status !== 304 || text !== '') {
      throw new Error(`${call.path} with If-None-Match returned ${status}: ${text}`)
    }
  }
}

const checks: Readonly<Record<string, Check>> = {
  W1: createReadCheck((expected, { products }, i) => expected.product(getElement(products, i).id)),
  W2: createReadCheck((expected) => expected.newestProducts()),
  W3: createReadCheck((expected, { positions }, i) => expected.usersAfter(getElement(positions, i))),
  W4: createReadCheck((expected) => expected.newestOrdersWithUsers()),
  W5: checkCreate,
  W6: checkUpdate,
  W7: checkNotModified,
  order: checkOrder,
}

/**
 * Compares the responses of a target with the rows of the database.
 * @throws Error that names the response that differs
 */
export async function checkResponses(
  workload: string,
  target: CheckedTarget,
  samples: Samples,
  expectedRows: ExpectedRows,
): Promise<void> {
  const check = checks[workload]
  if (!check) throw new Error(`Workload ${workload} has no check`)
  await check(target, samples, expectedRows)
}
