/** The payload of work has one type, from the request to the function. The compiler is the test. */

import type { Row, Store } from '../../../resources/src/definition/store.ts'
import { defineWork } from '../../src/work/definition.ts'

declare module '../../../resources/src/definition/work.ts' {
  interface WorkPayloads {
    'send-parcel': { order_id: string; weight: number }
  }
}

defineWork({
  name: 'send-parcel',
  schedule: ['5s', '1m'],
  async run({ order_id, weight }, { id, attempts }) {
    const values: [string, number, string, number] = [order_id, weight, id, attempts]
    return values
  },
})

export async function enqueueAll(store: Store<Row>) {
  const isNew: boolean = await store.enqueue(
    'send-parcel',
    { order_id: 'a', weight: 1 },
    { key: 'a', delay: '1h' },
  )
  // @ts-expect-error A member is missing.
  await store.enqueue('send-parcel', { order_id: 'a' })
  // @ts-expect-error There is no such work.
  await store.enqueue('send-letter', { order_id: 'a', weight: 1 })
  return isNew
}

// @ts-expect-error There is no such work.
defineWork({ name: 'send-letter', run: async () => {} })
