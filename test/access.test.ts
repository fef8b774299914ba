import Fastify from 'fastify'
import t from 'tap'
import access, { type Role } from '../plugins/access.ts'
import errors from '../plugins/errors.ts'
import { type Client, type Person, testApp } from './helpers/app.ts'
import { SERVER } from './helpers/database.ts'
import { activeProduct, speak, unique, VERSIONS } from './helpers/speak.ts'

const SOMEBODY = '0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f'

t.test('who may do what', async (t) => {
  const { admin: client, anybody, base, person } = await testApp(t)
  const people: Record<Role, Person> = {
    admin: await person('admin'),
    manager: await person('manager'),
    member: await person('member'),
  }
  const stranger = await person('member')
  const roles: Role[] = ['admin', 'manager', 'member']

  for (const version of VERSIONS) {
    const admin = speak(client, version)
    const product = await activeProduct(admin, { stock: 10_000 })
    const items = [{ product_id: product.id, quantity: 1 }]

    /** What a body of PUT and of PATCH would be; PATCH asks for a change, so that nothing passes for want of one. */
    const bodies: Record<string, { put: () => object; patch: () => object }> = {
      users: {
        put: () => ({ name: unique('n'), email: `${unique('a')}@example.com` }),
        patch: () => ({ name: unique('n') }),
      },
      'user-profiles': { put: () => ({ bio: unique('b') }), patch: () => ({ bio: unique('b') }) },
      posts: { put: () => ({ title: unique('t'), body: 'b' }), patch: () => ({ title: unique('t') }) },
      products: {
        put: () => ({ sku: unique('S'), name: 'n', price_amount: 1 }),
        patch: () => ({ name: unique('n') }),
      },
      orders: { put: () => ({ items, note: unique('n') }), patch: () => ({ note: unique('n') }) },
    }

    const statuses = async (by: Client, collection: string, path: string) => {
      const speaker = speak(by, version)
      const body = bodies[collection]
      return [
        (await speaker.get(path)).status,
        (await speaker.put(path, body?.put())).status,
        (await speaker.patch(path, body?.patch())).status,
        (await speaker.delete(path)).status,
      ].join(' ')
    }

    /** A row of the caller's own, and one of somebody else's, made by an admin. */
    const rowOf = async (collection: string, owner: string): Promise<string> => {
      const made = {
        'user-profiles': () => admin.post('/user-profiles', { user_id: owner }),
        posts: () => admin.post(`/users/${owner}/posts`, { title: 'a', body: 'b' }),
        products: () => admin.post('/products', bodies.products?.put()),
        orders: () => admin.post('/orders', { user_id: owner, items }),
      }[collection]
      const reply = await made?.()
      const path = collection === 'posts' ? `/users/${owner}/posts` : `/${collection}`
      return `${path}/${reply?.data.id}`
    }

    // GET PUT PATCH DELETE.
    const matrix: Record<string, Record<Role, { own: string; foreign: string; missing: string }>> = {
      'user-profiles': {
        admin: { own: '200 200 200 204', foreign: '200 200 200 204', missing: '404 404 404 404' },
        manager: { own: '200 200 200 204', foreign: '200 200 200 204', missing: '404 404 404 404' },
        member: { own: '200 200 200 204', foreign: '200 403 403 403', missing: '404 404 404 404' },
      },
      posts: {
        admin: { own: '200 200 200 204', foreign: '200 200 200 204', missing: '404 404 404 404' },
        manager: { own: '200 200 200 204', foreign: '200 200 200 204', missing: '404 404 404 404' },
        member: { own: '200 200 200 204', foreign: '403 403 403 403', missing: '404 404 404 404' },
      },
      orders: {
        admin: { own: '200 200 200 204', foreign: '200 200 200 204', missing: '404 404 404 404' },
        manager: { own: '200 200 200 403', foreign: '200 200 200 403', missing: '404 404 404 403' },
        member: { own: '200 200 200 403', foreign: '403 403 403 403', missing: '404 404 404 403' },
      },
      products: {
        admin: { own: '200 200 200 204', foreign: '200 200 200 204', missing: '404 404 404 404' },
        manager: { own: '200 200 200 204', foreign: '200 200 200 204', missing: '404 404 404 404' },
        member: { own: '403 403 403 403', foreign: '403 403 403 403', missing: '404 403 403 403' },
      },
    }

    for (const [collection, expected] of Object.entries(matrix)) {
      t.test(
        `v${version}: ${collection}: own, foreign and missing rows, for every verb and role`,
        async (t) => {
          for (const role of roles) {
            const { client, id } = people[role]
            const { own, foreign, missing } = expected[role]
            const mine = await rowOf(collection, id)
            t.equal(await statuses(client, collection, mine), own, `${role}: own`)
            await admin.delete(mine)
            const theirs = await rowOf(collection, stranger.id)
            t.equal(await statuses(client, collection, theirs), foreign, `${role}: foreign`)
            await admin.delete(theirs)
            const parent = collection === 'posts' ? `/users/${stranger.id}/posts` : `/${collection}`
            t.equal(await statuses(client, collection, `${parent}/${SOMEBODY}`), missing, `${role}: missing`)
          }
        },
      )
    }

    t.test(`v${version}: users: own, foreign and missing rows, for every verb and role`, async (t) => {
      const fresh = async (role: Role) => (await person(role)).id
      // PUT of one's own brings a new address, which needs a token; a name alone does not.
      const own: Record<Role, string> = {
        admin: '200 403 200 204',
        manager: '200 403 200 403',
        member: '200 403 200 403',
      }
      const foreign: Record<Role, string> = {
        admin: '200 200 200 204',
        manager: '200 403 403 403',
        member: '403 403 403 403',
      }
      const missing: Record<Role, string> = {
        admin: '404 404 404 404',
        manager: '404 404 404 403',
        member: '404 404 404 403',
      }
      for (const role of roles) {
        const self = await person(role)
        t.equal(await statuses(self.client, 'users', `/users/${self.id}`), own[role], `${role}: own`)
        const { client } = people[role]
        t.equal(await statuses(client, 'users', `/users/${await fresh('member')}`), foreign[role], role)
        t.equal(await statuses(client, 'users', `/users/${await fresh('manager')}`), foreign[role], role)
        t.equal(await statuses(client, 'users', `/users/${SOMEBODY}`), missing[role], `${role}: missing`)
      }
    })

    t.test(`v${version}: who may create, and for whom`, async (t) => {
      for (const role of roles) {
        const { id, client } = await person(role)
        const by = speak(client, version)
        const staff = role === 'member' ? 403 : 201
        t.equal((await by.post('/users', bodies.users?.put())).status, role === 'admin' ? 201 : 403)
        t.equal((await by.post('/products', bodies.products?.put())).status, staff)
        t.equal((await by.post('/orders', { items })).status, 201)
        t.equal((await by.post('/orders', { items, user_id: stranger.id })).status, staff)
        t.equal((await by.post('/user-profiles', {})).status, 201)
        const { id: other } = await person('member')
        t.equal((await by.post('/user-profiles', { user_id: other })).status, staff)
        t.equal((await by.post(`/users/${id}/posts`, bodies.posts?.put())).status, 201)
        t.equal((await by.post('/users/me/posts', bodies.posts?.put())).status, 201)
        t.equal((await by.post(`/users/${other}/posts`, bodies.posts?.put())).status, staff)
      }
    })

    t.test(`v${version}: lists show and count only what may be read`, async (t) => {
      const own = speak((await person('member')).client, version)
      const staff = speak(people.manager.client, version)
      t.equal((await own.get('/users')).status, 403, 'a member does not list users')
      t.equal((await staff.get('/users')).status, 200)

      await rowOf('orders', stranger.id)
      const mine = (await own.post('/orders', { items })).data.id
      const orders = await own.get('/orders?page=1')
      t.same(
        orders.data.map(({ id }: { id: string }) => id),
        [mine],
      )
      t.match(orders.body.pagination, { total: 1, total_pages: 1 })
      t.same((await own.get(`/orders?user_id=${stranger.id}`)).data, [])
      t.same((await own.get(`/orders?user_id=${stranger.id}&page=1`)).body.pagination.total, 0)
      t.ok((await staff.get('/orders?page=1')).body.pagination.total > 1)

      await rowOf('products', '')
      const seen = await own.get('/products?limit=100&page=1')
      t.ok(seen.data.every(({ status }: { status: string }) => status === 'active'))
      t.equal(seen.body.pagination.total, seen.data.length)
      t.equal((await own.get('/products?status=draft&page=1')).body.pagination.total, 0)
      t.ok((await staff.get('/products?status=draft&page=1')).body.pagination.total > 0)

      const author = await person('member')
      const posts = `/users/${author.id}/posts`
      for (const status of ['draft', 'published', 'archived']) {
        await admin.post(posts, { title: status, body: 'b', status })
      }
      const titles = async (by: typeof own) =>
        (await by.get(`${posts}?page=1&sort=title`)).data.map(({ title }: { title: string }) => title)
      t.same(await titles(own), ['published'])
      t.equal((await own.get(`${posts}?page=1`)).body.pagination.total, 1)
      t.same(await titles(speak(author.client, version)), ['archived', 'draft', 'published'])
      t.same(await titles(staff), ['archived', 'draft', 'published'])
      const published = (await staff.get(`${posts}?status=published`)).data[0].id
      t.equal((await own.get(`${posts}/${published}`)).status, 200)
      t.equal((await own.patch(`${posts}/${published}`, { title: 'x' })).status, 403)
    })

    t.test(`v${version}: a cursor walks past what may not be read`, async (t) => {
      const own = speak((await person('member')).client, version)
      const mine = []
      for (let i = 0; i < 3; i++) {
        mine.push((await own.post('/orders', { items })).data.id)
        await rowOf('orders', stranger.id)
      }
      const walked = []
      let cursor = ''
      do {
        const page = await own.get(`/orders?limit=1&cursor=${cursor}`)
        walked.push(...page.data.map(({ id }: { id: string }) => id))
        cursor = page.body.pagination.cursor
      } while (cursor)
      t.same(walked, mine.toReversed())
    })

    t.test(`v${version}: include leaves out what may not be read`, async (t) => {
      const someone = await person('member')
      const own = speak(someone.client, version)
      const hidden = await activeProduct(admin)
      const order = (await own.post('/orders', { items: [...items, { product_id: hidden.id, quantity: 1 }] }))
        .data
      await admin.patch(`/products/${hidden.id}`, { status: 'archived' })
      const shown = (await own.get(`/orders/${order.id}?include=products,user`)).data
      t.same(
        shown.products.map(({ id }: { id: string }) => id),
        [product.id],
      )
      t.equal(shown.user.id, someone.id)
      t.equal((await admin.get(`/orders/${order.id}?include=products`)).data.products.length, 2)

      const post = (
        await admin.post(`/users/${stranger.id}/posts`, { title: 'a', body: 'b', status: 'published' })
      ).data
      const path = `/users/${stranger.id}/posts/${post.id}?include=user`
      t.equal((await own.get(path)).data.user, null, 'a member does not read other users')
      t.equal((await admin.get(path)).data.user.id, stranger.id)
      for (const status of ['draft', 'published']) {
        await admin.post(`/users/${someone.id}/posts`, { title: status, body: 'b', status })
      }
      t.equal((await own.get('/users/me?include=posts,orders,profile')).data.posts.length, 2)
    })

    t.test(`v${version}: without credentials 401, whatever is asked`, async (t) => {
      const nobody = speak(anybody, version)
      const order = await rowOf('orders', stranger.id)
      for (const path of [
        '/users',
        '/users/me',
        order,
        `/orders/${SOMEBODY}`,
        '/products',
        '/user-profiles/x',
      ]) {
        const reply = await nobody.get(path)
        t.equal(reply.status, 401, path)
        t.equal(reply.code, 'UNAUTHORIZED')
        t.equal(reply.message, 'Authentication required')
        t.match(reply.headers.get('www-authenticate'), /^Bearer/)
      }
      t.equal((await nobody.post('/users', {})).status, 401)
      t.equal((await nobody.delete(order)).status, 401)
    })

    t.test(`v${version}: what the role never has is 403 before any look at body, query or row`, async (t) => {
      const own = speak(people.member.client, version)
      for (const reply of [
        await own.get('/users?nonsense=1'),
        await own.post('/users', []),
        await own.post('/products', { colour: 1 }),
        await own.delete(`/orders/${SOMEBODY}`),
        await own.delete('/orders/nothing'),
        await own.patch('/products/nothing', {}),
      ]) {
        t.equal(reply.status, 403)
        t.equal(reply.code, 'FORBIDDEN')
        t.match(reply.message, /member/)
      }
    })
  }

  t.test('scopes narrow what a role may do', async (t) => {
    const verbs = async (by: Client, path: string) => [
      (await by.get(path)).status,
      (await by.patch(path, { name: unique('n') })).status,
    ]
    const { id } = await activeProduct(speak(client, 1))
    const path = `/products/${id}`
    t.same(await verbs((await person('manager', ['products:read'])).client, path), [200, 403])
    t.same(
      await verbs((await person('manager', ['products:write'])).client, path),
      [403, 200],
      'write is not read',
    )
    t.same(
      await verbs((await person('manager', ['products:read', 'products:write'])).client, path),
      [200, 200],
    )
    t.same(await verbs((await person('manager', ['*'])).client, path), [200, 200])
    t.same(await verbs((await person('manager', [])).client, path), [403, 403])
    t.same(await verbs((await person('manager', ['orders:read', 'products'])).client, path), [403, 403])
    t.same(await verbs((await person('member', ['*'])).client, path), [200, 403], 'and never widen it')

    const reader = (await person('manager', ['products:read'])).client
    const refused = await reader.patch(path, { colour: 1 })
    t.match(refused.body.error, { code: 'FORBIDDEN', message: /products:write/ })
    t.equal((await reader.get('/orders')).status, 403)
    t.match((await reader.get('/orders')).body.error.message, /orders:read/)
    t.equal((await reader.get('/users/me')).status, 403)
    t.equal((await reader.delete(`/products/${SOMEBODY}`)).status, 403)
  })

  t.test("an include needs the relation's own read scope", async (t) => {
    const { id, client } = await person('member', ['orders:read', 'orders:write', 'users:read'])
    const product = await activeProduct(speak(people.admin.client, 1))
    const made = await client.post('/orders', { items: [{ product_id: product.id, quantity: 1 }] })
    const path = `/orders/${made.body.data.id}`
    t.equal((await client.get(`${path}?include=user`)).body.data.user.id, id)
    for (const path of [
      `/orders/${made.body.data.id}`,
      '/orders',
      `/orders?user_id=${SOMEBODY}`,
      `/orders/${SOMEBODY}`,
    ]) {
      const refused = await client.get(`${path}${path.includes('?') ? '&' : '?'}include=products,user`)
      t.equal(refused.status, 403, path)
      t.match(refused.body.error.message, /products:read/)
    }
  })

  t.test('a key that is none, is mistyped or has expired is 401', async (t) => {
    const { key } = people.member
    const mistyped = key.slice(0, -1) + (key.endsWith('a') ? 'b' : 'a')
    for (const wrong of ['x', mistyped, key.toUpperCase(), `${key} `.repeat(2), `${key}${key}`, 'rak_']) {
      const reply = await anybody.get('/users/me', { 'x-api-key': wrong })
      t.equal(reply.status, 401)
      t.equal(reply.body.error.message, 'Invalid or expired API key')
      t.match(reply.headers.get('www-authenticate'), /^Bearer/)
    }
    t.equal(
      (await anybody.get('/users/me', { 'x-api-key': '' })).body.error.message,
      'Authentication required',
    )
    const bearer = await anybody.get('/users/me', { authorization: 'Bearer nonsense' })
    t.same([bearer.status, bearer.body.error.message], [401, 'Invalid or expired token'])
    const both = await anybody.get('/users/me', { authorization: 'Bearer x', 'x-api-key': key })
    t.same([both.status, both.body.error.code], [400, 'INVALID_REQUEST'])
  })

  t.test('OPTIONS and what is not of a version need no credentials', async (t) => {
    for (const path of ['/api/v1/users', '/v2/orders', `/products/${SOMEBODY}`]) {
      const reply = await fetch(`${base}${path}`, { method: 'OPTIONS' })
      t.equal(reply.status, 204)
    }
    t.equal((await anybody.get('/livez')).status, 200)
    t.equal((await anybody.get('/openapi/v1.json')).status, 200)
  })
})

t.test('with HIDE_FORBIDDEN what is refused is as if it were not there', async (t) => {
  const { admin, person } = await testApp(t, { HIDE_FORBIDDEN: 'true' })
  const { client, id } = await person('member')
  const other = await person('member')
  const product = await activeProduct(speak(admin, 1))
  const body = { items: [{ product_id: product.id, quantity: 1 }] }
  const foreign = (await admin.post('/orders', body)).body.data.id
  const missing = await client.get(`/orders/${SOMEBODY}`)
  for (const reply of [
    await client.get(`/orders/${foreign}`),
    await client.patch(`/orders/${foreign}`, { note: 'x' }),
    await client.put(`/orders/${foreign}`, body),
    await client.get(`/users/${other.id}`),
    await client.patch(`/users/${other.id}`, { name: 'x' }),
    await client.post(`/users/${other.id}/posts`, { title: 'a', body: 'b' }),
  ]) {
    t.equal(reply.status, 404)
    t.equal(reply.body.error.code, 'RESOURCE_NOT_FOUND')
    t.equal(reply.body.error.message, missing.body.error.message)
  }
  t.equal(
    (await client.post('/orders', { ...body, user_id: other.id })).status,
    403,
    'there is nothing to hide',
  )
  t.equal((await client.get('/users')).status, 403, 'what the role never has stays 403')
  const own = (await client.post('/orders', body)).body.data
  t.equal(
    (await client.patch(`/orders/${own.id}`, { status: 'paid' })).status,
    403,
    'so does a row they can read',
  )
  t.equal((await client.get(`/users/${id}`)).status, 200)
})

t.test('a route without an access word, or with one that nobody defined, stops the start', async (t) => {
  for (const config of [undefined, {}, { access: 'nothing:list' as const }]) {
    const bare = Fastify()
    await bare.register(errors)
    await bare.register(access, { hideForbidden: false, allowSignup: false })
    bare.get('/bare', config ? { config } : {}, async () => 'x')
    await t.rejects(async () => bare.ready(), { message: /GET.* \/bare/ })
  }
})

const skip = SERVER ? false : 'the embedded database runs one transaction at a time: set DATABASE_URL'

t.test('of two admins who demote each other at once, one stays', { skip }, async (t) => {
  const { admin: first, adminId, database, person } = await testApp(t)
  for (let round = 0; round < 8; round++) {
    const second = await person('admin')
    const ways = [
      (by: Client, id: string) => by.patch(`/users/${id}`, { role: 'member' }),
      (by: Client, id: string) => by.patch(`/users/${id}`, { status: 'suspended' }),
      (by: Client, id: string) => by.delete(`/users/${id}`),
      (by: Client) => by.patch('/users/me', { status: 'inactive' }),
    ]
    const way = ways[round % 4] ?? ways[0]
    const replies = await Promise.all([way?.(first, second.id), way?.(second.client, adminId)])
    const statuses = replies.map((reply) => reply?.status)
    t.ok(
      statuses.every((status) => status !== undefined && status < 500),
      statuses.join(),
    )
    const [left] = await database.run(
      `select count(*) as n from users where role = 'admin' and status = 'active'`,
    )
    t.equal(Number(left?.n), 1, statuses.join())
    await database.run(`delete from users where id = $1`, [second.id])
    await database.run(
      `insert into users (id, name, email, role) values ($1, 'Admin', 'admin@example.com', 'admin')
       on conflict (id) do update set role = 'admin', status = 'active'`,
      [adminId],
    )
  }
})
