/** The lists of the client package: all pages as one iterable, or page by page. */
import t from 'tap'
import { createClient } from '../../client/src/index.ts'
import { ADMIN_KEY, testApp } from '../helpers/app.ts'
import { createRecordedFetch } from '../helpers/recorded-fetch.ts'

const COUNT = 250
const members = { role: 'member' } as const

t.test('lists', async (t) => {
  const { base: baseUrl, database } = await testApp(t)
  await database.run(
    `insert into users (id, name, email, role, status, search)
     select gen_random_uuid(), 'Ada ' || to_char(n, 'FM000'), 'ada-' || n || '@example.com', 'member', 'active', 'ada'
     from generate_series(1, $1::int) n`,
    [COUNT],
  )
  const { fetch, sent } = createRecordedFetch()
  const client = createClient({ baseUrl, apiKey: ADMIN_KEY, fetch })
  t.beforeEach(() => {
    sent.length = 0
  })

  t.test('iterating yields each resource of all pages once, in order', async (t) => {
    const names: string[] = []
    const list = client.users.list({ role: 'member', sort: ['name'], fields: ['name'] })
    for await (const { name } of list) names.push(name)
    t.same(
      names,
      Array.from({ length: COUNT }, (_, i) => `Ada ${String(i + 1).padStart(3, '0')}`),
    )
    t.equal(sent.length, 3, 'in pages of 100')
    t.equal((await client.users.list({ ...members, limit: 50, fields: ['id'] }).toArray()).length, COUNT)
    t.equal(sent.length, 3 + 5, 'or of `limit`')
    // @ts-expect-error a program without exactOptionalPropertyTypes may pass undefined
    await client.users.list({ limit: undefined }).toArray()
    t.equal(sent.length, 3 + 5 + 3, 'an undefined `limit` is none')
  })

  t.test('a filter takes one value or several', async (t) => {
    const email = ['ada-9@example.com', 'ada-3@example.com', 'no@example.com']
    const found = await client.users.list({ email, sort: ['name'] }).toArray()
    t.match(found, [{ name: 'Ada 003' }, { name: 'Ada 009' }])
    t.match(decodeURIComponent(sent[0]?.path ?? ''), `email=${email.join()}`)
    const states = { ...members, status: ['active', 'inactive'] } as const
    t.equal((await client.users.list(states).toArray()).length, COUNT)
  })

  t.test('no page is requested before it is needed', async (t) => {
    const list = client.users.list({ limit: 10 })
    t.equal(sent.length, 0)
    let count = 0
    for await (const _ of list) if (++count === 10) break
    t.equal(sent.length, 1)
  })

  t.test('page() returns one page, and next() the one after it', async (t) => {
    const first = await client.users.list({ ...members, sort: ['email'], limit: 100 }).page()
    t.equal(first.data.length, 100)
    t.match(first.pagination, { has_more: true, cursor: String })
    const second = await first.next()
    const third = await second?.next()
    t.equal(third?.data.length, 50)
    t.equal(third?.hasNext, false)
    t.equal(await third?.next(), null)
    t.equal((await client.users.list().page()).data.length, 20, 'the page size of the server')
  })

  t.test('a list with page numbers has totals, and next() counts up', async (t) => {
    const first = await client.users.list({ ...members, page: 2, limit: 100 }).page()
    t.same(first.pagination, { page: 2, limit: 100, total: COUNT, total_pages: 3 })
    const second = await first.next()
    t.match(second?.pagination, { page: 3 })
    t.equal(await second?.next(), null)
  })

  t.test('a list that is aborted ends with the reason of the signal', async (t) => {
    const controller = new AbortController()
    const read = async () => {
      for await (const _ of client.users.list({ limit: 10 }, { signal: controller.signal })) {
        controller.abort(new Error('enough'))
      }
    }
    await t.rejects(read(), { message: 'enough' })
  })
})
