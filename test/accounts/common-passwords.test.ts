/** The commonest passwords are refused wherever a new one is set. */
import t from 'tap'
import { bootstrap } from '../../plugins/auth/bootstrap.ts'
import { commonPasswordList } from '../../plugins/auth/common-password-list.ts'
import { listCommonPasswords } from '../../scripts/list-common-passwords.ts'
import { createClient, testApp } from '../helpers/app.ts'
import { testDatabase } from '../helpers/database.ts'
import { recordLinks } from '../helpers/links.ts'
import { createUniqueName } from '../helpers/versioned-client.ts'

const PASSWORD = 'eleven brass cogs'
/** All are in the list, in lower case. */
const COMMON = ['1qaz2wsx3edc', 'QWERTY123456', 'Administrator']
const newAddress = () => `${createUniqueName('ada')}@example.com`
const { admin, anybody, app, base } = await testApp(t, { ALLOW_SIGNUP: 'true' })
const links = recordLinks(app)

t.test('POST, PATCH and PUT of users refuse them', async (t) => {
  const name = 'Ada'
  for (const password of COMMON) {
    const email = newAddress()
    const { id } = (await admin.post('/users', { name, email, password: PASSWORD })).body.data
    const grant = { grant_type: 'password', email, password: PASSWORD }
    const { access_token } = (await anybody.post('/tokens', grant)).body.data
    const own = createClient(base, { authorization: `Bearer ${access_token}` })
    for (const reply of [
      await anybody.post('/users', { name, email: newAddress(), password }),
      await admin.post('/users', { name, email: newAddress(), password }),
      await admin.patch(`/users/${id}`, { password }),
      await admin.put(`/users/${id}`, { name, email, password }),
      await own.patch('/users/me', { password, current_password: PASSWORD }),
    ]) {
      t.equal(reply.status, 422)
      t.match(reply.body.error.details, [{ field: 'password', code: 'INVALID_VALUE', message: /common/ }])
    }
    t.equal((await admin.patch(`/users/${id}`, { password: `${password}, and more` })).status, 200)
  }
})

t.test('a reset refuses them, and can still be used', async (t) => {
  const email = newAddress()
  await admin.post('/users', { name: 'Ada', email, password: PASSWORD })
  await anybody.post('/password-resets', { email })
  const { id, token } = links.at(-1) ?? {}
  const reply = await anybody.patch(`/password-resets/${id}`, { token, password: COMMON[0] })
  t.equal(reply.status, 422)
  t.match(reply.body.error.details, [{ field: 'password', code: 'INVALID_VALUE' }])
  const again = await anybody.patch(`/password-resets/${id}`, { token, password: 'quite another secret' })
  t.equal(again.status, 200)
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
