/** The commonest passwords are refused wherever a new one is set. */
import t from 'tap'
import { listCommonPasswords } from '../../../../scripts/list-common-passwords.ts'
import { createAccounts, newAddress, PASSWORD } from '../../../testing/helpers/accounts.ts'
import { testApp } from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { bootstrap } from '../../src/auth/bootstrap.ts'
import { commonPasswordList } from '../../src/auth/common-password-list.ts'

/** All are in the list, in lower case. */
const COMMON = ['1qaz2wsx3edc', 'QWERTY123456', 'Administrator']
const app = await testApp(t, { ALLOW_SIGNUP: 'true' })
const { admin, anybody } = app
const { complete, createSignedIn, request } = createAccounts(app)

t.test('POST, PATCH and PUT of users and resets refuse them', async (t) => {
  const name = 'Ada'
  for (const password of COMMON) {
    const { id, email, own } = await createSignedIn()
    const link = await request(email)
    for (const reply of [
      await anybody.post('/users', { name, email: newAddress(), password }),
      await admin.post('/users', { name, email: newAddress(), password }),
      await admin.patch(`/users/${id}`, { password }),
      await admin.put(`/users/${id}`, { name, email, password }),
      await own.patch('/users/me', { password, current_password: PASSWORD }),
      await complete(link, { password }),
    ]) {
      t.equal(reply.status, 422)
      t.match(reply.body.error.details, [{ field: 'password', code: 'INVALID_VALUE', message: /common/ }])
    }
    t.equal((await complete(link)).status, 200, 'the link can still be used')
    t.equal((await admin.patch(`/users/${id}`, { password: `${password}, and more` })).status, 200)
  }
})

t.test('the generated list is that of the package', async (t) => {
  const all = listCommonPasswords()
  t.ok(all.length > 300)
  t.same(commonPasswordList.trim().split(/\s+/), all, 'npm run passwords')
})

t.test('the first admin gets none', async (t) => {
  const database = await testDatabase(t)
  const options = { email: 'admin@example.com', hasKey: false, canGenerate: false }
  await t.rejects(bootstrap(database, { ...options, password: COMMON[0] }), /ADMIN_PASSWORD is one of/)
  t.match(await bootstrap(database, { ...options, password: PASSWORD }), { hasActiveAdmin: true })
  t.match(await bootstrap(database, { ...options, password: COMMON[0] }), { hadUsers: true }, 'it is ignored')
})
