/** `import` of a collection sends rows or a file as a stream. */
import t from 'tap'
import { createClient, ValidationError } from '../../client/src/index.ts'
import { ADMIN_KEY, testApp } from '../helpers/app.ts'
import { createUniqueName } from '../helpers/versioned-client.ts'

t.test('imports', async (t) => {
  const { base: baseUrl, admin } = await testApp(t)
  const { users } = createClient({ baseUrl, apiKey: ADMIN_KEY })
  const createBody = (name = 'Ada') => ({ name, email: `${createUniqueName('ada')}@example.com` })

  t.test('rows of any iterable are sent', async (t) => {
    const bodies = Array.from({ length: 1_000 }, () => createBody())
    t.same(await users.import(bodies), { created: 1_000, updated: 0, unchanged: 0 })
    async function* renamed() {
      for (const { email } of bodies.slice(0, 2)) yield { email, name: 'Grace' }
    }
    t.same(await users.import(renamed(), { onConflict: 'email', dryRun: true }), {
      created: 0,
      updated: 2,
      unchanged: 0,
    })
    const exported = (await users.list().page()).data
    t.equal((await users.import(exported, { onConflict: 'email' })).unchanged, exported.length)
  })

  t.test('a file is sent as it is, and a session has its token', async (t) => {
    const body = { ...createBody(), password: 'twelve brass cogs, turning', role: 'admin' as const }
    await admin.post('/users', body)
    const session = createClient({ baseUrl, signIn: { email: body.email, password: body.password } })
    const { email } = createBody()
    const file = () => new Blob([`name,email\nAda,${email}\n`]).stream()
    t.same(await session.users.import(file(), { format: 'csv' }), { created: 1, updated: 0, unchanged: 0 })
    const idempotencyKey = crypto.randomUUID()
    const again = () => users.import(file(), { format: 'csv', onConflict: 'email', idempotencyKey })
    t.same(await again(), await again())
  })

  t.test('an error names the rows', async (t) => {
    const error = await users.import([createBody(), { name: '' }]).catch((failure) => failure)
    t.ok(error instanceof ValidationError)
    t.match(error.fields, [{ field: 'rows.2.email' }, { field: 'rows.2.name' }])
  })

  t.test('an import can be aborted', async (t) => {
    const controller = new AbortController()
    async function* endless() {
      for (;;) {
        yield createBody()
        controller.abort(new Error('enough'))
      }
    }
    await t.rejects(users.import(endless(), { signal: controller.signal }), { message: 'enough' })
  })
})
