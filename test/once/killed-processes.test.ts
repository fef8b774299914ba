/** Each committed change has its event after kill -9 of the server and of PostgreSQL; `npm run soak -- events` repeats this. */
import t from 'tap'
import { type FeedEvent, findConsumerErrors, findHistoryErrors, type History } from '../soak/event-checks.ts'
import type { LoggedWrite } from '../soak/event-writer.ts'
import { eventRounds } from '../soak/events.ts'
import { findBinFolder } from '../soak/private-postgres.ts'

const skip = findBinFolder() === undefined && 'PostgreSQL is not installed'

t.test(
  'events of a server and a PostgreSQL that are killed reach streams, pollers and webhooks',
  { skip },
  async (t) => {
    const report = await eventRounds(t, { rounds: 2, clients: 4, between: [300, 600], isShort: true })
    t.strictSame(report.violations, [])
    t.ok(report.events > 0, `${report.events} events of ${report.writes.acknowledged} acknowledged writes`)
    const { server, postgres } = report.recoveryTimes
    t.strictSame([server.length, postgres.length], [1, 1], 'one kill of each')
  },
)

/** A product that was created and updated, and one that was deleted with an order that took it from the stock. */
function createHistory(): { events: FeedEvent[]; history: History; writes: LoggedWrite[] } {
  const createEvent = (
    position: number,
    type: string,
    resource_id: string,
    revision: number,
    [data, previous]: [object, object | null],
    request_id: string,
  ): FeedEvent => ({
    ...{ id: `event ${position}`, position, type, resource_type: type.split('.')[0] ?? '', resource_id },
    ...{ revision, data: { id: resource_id, ...data }, previous, request_id, created_at: '' },
  })
  const order = { status: 'pending', items: [{ product_id: 'tea', quantity: 2 }] }
  const events = [
    createEvent(1, 'products.created', 'tea', 1, [{ stock: 5 }, null], 'setup'),
    createEvent(2, 'products.created', 'cup', 1, [{ stock: 1 }, null], 'a1'),
    createEvent(3, 'products.updated', 'tea', 2, [{ stock: 3 }, { stock: 5 }], 'b1'),
    createEvent(4, 'orders.created', 'order', 1, [order, null], 'b1'),
    createEvent(5, 'products.deleted', 'cup', 2, [{ stock: 1 }, null], 'a2'),
  ]
  const createWrite = (type: string, outcome: LoggedWrite['outcome'], ...requestIds: string[]) => ({
    ...{ type, outcome, requestIds, isReplayed: false },
  })
  const writes = [
    createWrite('products.created', 'acknowledged', 'a0', 'a1'),
    createWrite('products.deleted', 'acknowledged', 'a2'),
    createWrite('products.created', 'refused', 'a3'),
    createWrite('products.created', 'unknown', 'a4'),
  ]
  const rows = [
    { resource_type: 'products', id: 'tea', revision: 2, data: { id: 'tea', stock: 3 } },
    { resource_type: 'orders', id: 'order', revision: 1 },
  ]
  const logs = [writes, [createWrite('orders.created', 'unknown', 'b1')]]
  return { events, writes, history: { events, setupCount: 1, rows, logs } }
}

t.test('the check accepts a history without faults', async (t) => {
  t.strictSame(findHistoryErrors(createHistory().history), [])
})

t.test('the check detects every kind of fault in a history', async (t) => {
  type Parts = ReturnType<typeof createHistory>
  const getAt = ({ events }: Parts, position: number) => {
    const event = events[position - 1]
    if (!event) throw new Error(`There is no event ${position}`)
    return event
  }
  const spoilAt = (position: number, change: object) => (parts: Parts) =>
    Object.assign(getAt(parts, position), change)
  const spoilWrite =
    (index: number, change: object) =>
    ({ writes }: Parts) =>
      Object.assign(writes[index] ?? {}, change)
  const otherData = { data: { id: 'tea', stock: 4 } }
  const faults: [name: string, spoil: (parts: Parts) => unknown, expected: RegExp][] = [
    ['a lost event', ({ events }) => events.splice(1, 1), /products cup|number 1 of 1/],
    ['a lost last event', ({ events }) => events.pop(), /products cup has revision undefined/],
    ['a position twice', spoilAt(3, { position: 2 }), /in place 3/],
    ['an id twice', spoilAt(3, { id: 'event 2' }), /1 ids of events repeat/],
    ['a revision that is left out', spoilAt(3, { revision: 3 }), /number 2 of 2/],
    ['a row with other data', spoilAt(3, otherData), /products tea has other data/],
    ['former values', spoilAt(3, { previous: { stock: 6 } }), /does not follow the one before it/],
    ['no such row', spoilAt(4, { resource_id: 'gone' }), /orders gone has revision undefined/],
    [
      'an event of a refused write',
      spoilWrite(1, { outcome: 'refused' }),
      /refused products.deleted of request a2 has 1 events/,
    ],
    ['an event of no write', spoilAt(5, { request_id: 'c1' }), /of no logged write/],
    [
      'an acknowledged write without an event',
      spoilWrite(2, { outcome: 'acknowledged' }),
      /acknowledged products.created of request a3 has no event/,
    ],
    ['a write twice', spoilAt(5, { type: 'products.created', request_id: 'a0' }), /was made 2 times/],
    ['another response', spoilWrite(0, { data: { id: 'cup', stock: 2 } }), /an event with other data/],
    ['an order without its stock', spoilAt(3, { request_id: 'a2' }), /event 4 .* took \[\]/],
    [
      'changes of one client in another order',
      ({ writes }) => writes.reverse(),
      /event 2 .* precedes 5 .*, which was committed first/,
    ],
  ]
  for (const [name, spoil, expected] of faults) {
    const parts = createHistory()
    spoil(parts)
    t.match(findHistoryErrors(parts.history).join('\n'), expected, name)
  }
})

t.test(
  'the check detects events that a consumer did not get, got twice, altered, or out of order',
  async (t) => {
    const { events } = createHistory()
    const [first, second, ...others] = events
    if (!first || !second) throw new Error('The history has too few events')
    const find = (seen: FeedEvent[], canRepeat: boolean, isOrdered = true) =>
      findConsumerErrors('it', { seen, canRepeat, isOrdered }, events)
    t.strictSame(find(events, false), [])
    t.strictSame(find([first, ...events], true), [])
    t.strictSame(find([second, first, ...others], true, false), [])
    t.match(find([second, ...others], true).join('\n'), /did not get event 1/)
    t.match(find([first, ...events], false).join('\n'), /event 2 out of order/)
    t.match(find([second, first, ...others], true).join('\n'), /event 1 out of order/)
    t.match(find([{ ...first, revision: 7 }, second, ...others], true).join('\n'), /does not have like this/)
    t.match(find([...events, { ...first, id: 'unknown' }], true).join('\n'), /does not have like this/)
  },
)
