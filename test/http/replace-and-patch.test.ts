/** PUT replaces a resource, PATCH merges into it, and both keep read-only fields. */
import { verify } from '@node-rs/argon2'
import t from 'tap'
import { testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { createNotesTable, resourcesWithNotes } from '../helpers/notes.ts'
import {
  createActiveProduct,
  createUniqueName,
  createVersionedClient,
  omitId,
  VERSIONS,
} from '../helpers/versioned-client.ts'

const address = () => `${createUniqueName('put')}@example.com`

t.test('PUT and PATCH', async (t) => {
  const { admin: client, database, person } = await testApp(t, {}, { resources: resourcesWithNotes })
  await createNotesTable(database)

  for (const version of VERSIONS) {
    const admin = createVersionedClient(client, version)

    /** One of each: its path, and what must be in a PUT of it. */
    const oneOfEach = async () => {
      const product = await createActiveProduct(admin, { description: 'Warm', stock: 20 })
      const { id: userId } = (await admin.post('/users', { name: 'Ada', email: address(), role: 'manager' }))
        .data
      const profile = (await admin.post('/user-profiles', { user_id: userId, bio: 'One\ntwo', locale: 'de' }))
        .data
      const note = (
        await admin.post(`/users/${userId}/notes`, { title: 'a', body: ' b ', status: 'published' })
      ).data
      const order = (
        await admin.post('/orders', {
          user_id: userId,
          items: [{ product_id: product.id, quantity: 2 }],
          note: 'Ring',
          shipping_address: { name: 'a', line1: 'b', city: 'c', postal_code: 'd', country: 'GB' },
        })
      ).data
      return [
        `/products/${product.id}`,
        `/users/${userId}`,
        `/user-profiles/${profile.id}`,
        `/users/${userId}/notes/${note.id}`,
        `/orders/${order.id}`,
      ]
    }

    t.test(`v${version}: PUT of a resource as it was read changes nothing`, async (t) => {
      for (const path of await oneOfEach()) {
        const read = await admin.get(path)
        for (const body of [read.data, omitId(read.data)]) {
          // In v2 the id is next to the attributes; a flat body may contain it in both versions.
          const put = await admin.put(path, version === 2 ? omitId(body) : body)
          t.equal(put.status, 200, path)
          t.same(put.data, read.data)
          t.equal(put.etag, read.etag)
        }
        const typed = version === 2 ? (await client.get(`/v2${path}`)).body : undefined
        if (typed) {
          const put = await client.put(`/v2${path}`, { data: typed.data })
          t.equal(put.status, 200, 'the very document')
          t.same(put.body.data, typed.data)
        }
      }
    })

    t.test(`v${version}: PUT ignores read-only fields and rejects unknown ones`, async (t) => {
      for (const path of await oneOfEach()) {
        const { data, etag } = await admin.get(path)
        const late = { created_at: '2000-01-01T00:00:00.000Z', updated_at: 5 }
        t.equal((await admin.put(path, { ...omitId(data), ...late })).etag, etag)
        t.same((await admin.put(path, { ...omitId(data), revision: 1 })).violations, [
          'revision UNKNOWN_FIELD',
        ])
      }
    })

    t.test(`v${version}: another id or user_id is READ_ONLY, an absent one is unchanged`, async (t) => {
      for (const path of await oneOfEach()) {
        const { data } = await admin.get(path)
        const flat = (id: unknown) => client.put(`/api/v${version}${path}`, { ...data, id })
        for (const id of [UNKNOWN_ID, null, 5, '']) {
          const reply = await flat(id)
          t.equal(reply.status, 422)
          t.match(JSON.stringify(reply.body.error), /"field":"id","message":"[^"]*","code":"READ_ONLY"/)
        }
        t.equal((await flat(data.id.toUpperCase())).status, 200)
        if ('user_id' in data) {
          t.same((await admin.put(path, { ...omitId(data), user_id: UNKNOWN_ID })).violations, [
            'user_id READ_ONLY',
          ])
          const { user_id, ...rest } = omitId(data)
          t.equal((await admin.put(path, rest)).data.user_id, user_id)
        }
      }
    })

    t.test(`v${version}: PUT sets absent fields to their defaults`, async (t) => {
      const [product = '', user = '', profile = '', note = '', order = ''] = await oneOfEach()
      const sku = createUniqueName('PUT')
      t.match((await admin.put(product, { sku, name: 'New', price_amount: 7 })).data, {
        sku,
        name: 'New',
        description: null,
        price_amount: 7,
        currency: 'USD',
        stock: 0,
        status: 'draft',
      })
      t.match((await admin.put(profile, {})).data, { bio: null, locale: null, display_name: null })
      t.match((await admin.put(note, { title: 'x', body: 'y' })).data, {
        title: 'x',
        body: 'y',
        status: 'draft',
      })
      const { items } = (await admin.get(order)).data
      t.match((await admin.put(order, { items })).data, { note: null, shipping_address: null, items })
      const email = address()
      t.match((await admin.put(user, { name: 'New', email })).data, { name: 'New', email })
    })

    t.test(
      `v${version}: PUT keeps role, status and password of a user, and status of an order`,
      async (t) => {
        const email = address()
        const password = 'correct horse battery'
        const sent = { name: 'Ada', email, password, role: 'manager', status: 'suspended' }
        const { id } = (await admin.post('/users', sent)).data
        const hashOf = async () =>
          String(
            (await database.run('select password_hash from users where id = $1', [id]))[0]?.password_hash,
          )
        const hash = await hashOf()
        const put = await admin.put(`/users/${id}`, { name: 'Bea', email })
        t.match(put.data, { name: 'Bea', role: 'manager', status: 'suspended' })
        t.equal(await hashOf(), hash)
        await admin.put(`/users/${id}`, { name: 'Bea', email, password: 'another horse battery' })
        t.ok(await verify(await hashOf(), 'another horse battery'))
        t.match((await admin.put(`/users/${id}`, { ...sent, role: 'member', status: 'active' })).data, {
          role: 'member',
          status: 'active',
        })
        const order = (await oneOfEach())[4] ?? ''
        await admin.patch(order, { status: 'paid' })
        const { items } = (await admin.get(order)).data
        t.equal((await admin.put(order, { items })).data.status, 'paid')
        t.equal((await admin.put(order, { items, status: 'pending' })).status, 409)
      },
    )

    t.test(`v${version}: PUT of an unknown id is a 404 and creates nothing`, async (t) => {
      const user = (await person('member')).id
      const bodies: [string, object][] = [
        ['/products', { sku: createUniqueName('X'), name: 'a', price_amount: 1 }],
        ['/users', { name: 'a', email: address() }],
        ['/user-profiles', {}],
        [`/users/${user}/notes`, { title: 'a', body: 'b' }],
        ['/orders', { items: [{ product_id: UNKNOWN_ID, quantity: 1 }] }],
      ]
      for (const [path, body] of bodies) {
        t.equal((await admin.put(`${path}/${UNKNOWN_ID}`, body)).status, 404)
        t.equal((await admin.get(`${path}/${UNKNOWN_ID}`)).status, 404)
      }
    })

    t.test(`v${version}: PATCH changes only the fields that are sent`, async (t) => {
      const changes = [{ stock: 0 }, { name: 'New' }, { bio: null }, { title: 'New' }, { note: null }]
      for (const [i, path] of (await oneOfEach()).entries()) {
        const before = await admin.get(path)
        const after = await admin.patch(path, changes[i])
        t.equal(after.status, 200)
        const { updated_at, ...rest } = after.data
        const { updated_at: earlier, ...was } = before.data
        t.same(rest, { ...was, ...changes[i] }, path)
        t.ok(updated_at >= earlier)
        t.not(after.etag, before.etag)
        t.same((await admin.get(path)).data, after.data)
        t.equal((await admin.get(path)).etag, after.etag)
      }
    })

    t.test(`v${version}: a PATCH without effect keeps ETag and updated_at`, async (t) => {
      for (const path of await oneOfEach()) {
        const before = await admin.get(path)
        const { id: _, user_id: __, number, currency, total_amount, ...all } = before.data
        const readOnly = ['created_at', 'updated_at', 'published_at']
        const members = Object.entries(all).filter(([name]) => !readOnly.includes(name) && name !== 'items')
        const same = Object.fromEntries(members)
        if (number === undefined && currency !== undefined) same.currency = currency
        t.equal(total_amount === undefined, number === undefined)
        for (const body of [{}, same, ...members.map(([name, value]) => ({ [name]: value }))]) {
          const reply = await admin.patch(path, body)
          t.equal(reply.status, 200, `${path} ${JSON.stringify(body)}`)
          t.equal(reply.etag, before.etag)
          t.same(reply.data, before.data)
        }
        t.equal((await admin.get(path)).headers.get('last-modified'), before.headers.get('last-modified'))
      }
    })

    t.test(`v${version}: PATCH rejects read-only and immutable fields, even unchanged ones`, async (t) => {
      const readOnly = ['id', 'user_id', 'created_at', 'updated_at', 'number', 'total_amount', 'published_at']
      for (const path of await oneOfEach()) {
        const { data, etag } = await admin.get(path)
        const names = readOnly.filter((name) => name in data)
        const reply = await admin.patch(path, Object.fromEntries(names.map((name) => [name, data[name]])))
        t.equal(reply.status, 422)
        t.same(reply.violations, names.map((name) => `${name} READ_ONLY`).sort())
        t.equal((await admin.get(path)).etag, etag)
      }
    })

    t.test(`v${version}: null clears a nullable field and is rejected for others`, async (t) => {
      const nullable = [
        ['description'],
        [],
        ['display_name', 'bio', 'avatar_url', 'website_url', 'location', 'time_zone', 'locale'],
        [],
        ['note', 'shipping_address'],
      ]
      const required = [
        ['sku', 'name', 'price_amount', 'currency', 'stock', 'status'],
        ['name', 'email', 'password', 'role', 'status'],
        [],
        ['title', 'body', 'status'],
        ['items', 'status'],
      ]
      for (const [i, path] of (await oneOfEach()).entries()) {
        for (const name of nullable[i] ?? []) {
          t.equal((await admin.patch(path, { [name]: null })).data[name], null, name)
        }
        for (const name of required[i] ?? []) {
          const reply = await admin.patch(path, { [name]: null })
          t.equal(reply.status, 422)
          t.same(reply.violations, [`${name} INVALID_TYPE`])
        }
      }
    })

    t.test(`v${version}: each change has a later updated_at and a higher revision`, async (t) => {
      const [path = ''] = await oneOfEach()
      const moments = []
      const id = path.split('/')[2] ?? ''
      for (let stock = 0; stock < 5; stock++) {
        await admin.patch(path, { stock: stock + 100 })
        const [row] = await database.run('select revision, updated_at::text from products where id = $1', [
          id,
        ])
        moments.push(row ?? {})
      }
      for (const [i, { revision, updated_at }] of moments.entries()) {
        const before = moments[i - 1]
        if (!before) continue
        t.equal(Number(revision), Number(before.revision) + 1)
        t.ok(String(updated_at) > String(before.updated_at))
      }
    })

    t.test(`v${version}: each concurrent change has its own revision and ETag`, async (t) => {
      const product = await createActiveProduct(admin, { stock: 0 })
      const path = `/products/${product.id}`
      const { revision } =
        (await database.run('select revision from products where id = $1', [product.id]))[0] ?? {}
      const changes = Array.from({ length: 20 }, (_, i) =>
        i % 2 ? { stock: 100 + i } : { name: `Name ${i}` },
      )
      const replies = await Promise.all(changes.map((change) => admin.patch(path, change)))
      for (const [i, { status, data }] of replies.entries()) {
        t.equal(status, 200)
        t.match(data, changes[i] ?? {}, 'the answer has what was asked for')
      }
      const tags = new Set(replies.map(({ headers }) => headers.get('etag')))
      t.equal(tags.size, changes.length, 'a tag for each')
      const [row] = await database.run('select revision, search from products where id = $1', [product.id])
      t.equal(row?.revision, Number(revision) + changes.length)
    })

    t.test(`v${version}: application/merge-patch+json is accepted by PATCH alone`, async (t) => {
      const [path = ''] = await oneOfEach()
      const headers = { 'content-type': 'application/merge-patch+json' }
      const patched = await client.call('PATCH', `/api/v${version}${path}`, { headers, body: '{"stock":3}' })
      t.equal(patched.status, 200)
      t.equal((await client.call('PUT', `/api/v${version}${path}`, { headers, body: '{}' })).status, 415)
      t.equal((await client.call('POST', `/api/v${version}/products`, { headers, body: '{}' })).status, 415)
    })
  }
})
