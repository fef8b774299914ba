/** The message of a 404 says what is unknown: the version, the collection or the id. */
import t from 'tap'
import { testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { createNotes } from '../helpers/notes.ts'

const { admin, anybody } = await testApp(t, {}, await createNotes(t))

const cases: [path: string, message: string][] = [
  ['/api/v3/users', 'There is no version 3; supported: 1, 2'],
  ['/v3', 'There is no version 3; supported: 1, 2'],
  ['/v01/products', 'There is no version 01; supported: 1, 2'],
  ['/v1x/products', 'There is no such version; supported: 1, 2'],
  [`/v${'1'.repeat(400)}/products`, 'There is no such version; supported: 1, 2'],
  ['/product', 'There is no collection "product"; did you mean /products?'],
  ['/api/v2/Products', 'There is no collection "Products"; did you mean /products?'],
  ['/v1/user_profiles', 'There is no collection "user_profiles"; did you mean /user-profiles?'],
  ['/users/me/note', 'There is no collection "note"; did you mean /users/{user_id}/notes?'],
  ['/invoices', 'There is no collection "invoices"'],
  ['/produ', 'There is no collection "produ"'],
  [`/${'p'.repeat(64)}`, `There is no collection "${'p'.repeat(64)}"`],
  [`/${'p'.repeat(65)}`, 'Resource not found'],
  ['/%22%3Cscript', 'Resource not found'],
  ['/api/v1', 'Resource not found'],
  ['/v1', 'Resource not found'],
  ['/v2/products//', 'Resource not found'],
  ['/products/x/y', 'Resource not found'],
  ['/openapi/v9.json', 'Resource not found'],
]

t.test('an unknown path is a 404 that names the nearest collection, without credentials', async (t) => {
  for (const [path, message] of cases) {
    const { status, body } = await anybody.get(path)
    t.equal(status, 404, path)
    t.equal(body.error.code, 'RESOURCE_NOT_FOUND')
    t.equal(body.error.message, message)
  }
})

t.test('an unknown id is a 404 that names the resource and the id', async (t) => {
  const note = { title: 'a', body: 'b' }
  const unknown = `the id ${UNKNOWN_ID}`
  for (const [reply, message] of [
    [await admin.get(`/products/${UNKNOWN_ID}`), `There is no product with ${unknown}`],
    [await admin.get(`/products/${UNKNOWN_ID.toUpperCase()}`), `There is no product with ${unknown}`],
    [await admin.delete(`/user-profiles/${UNKNOWN_ID}`), `There is no user profile with ${unknown}`],
    [await admin.patch(`/orders/${UNKNOWN_ID}`, {}), `There is no order with ${unknown}`],
    [await admin.get(`/users/${UNKNOWN_ID}/notes`), `There is no user with ${unknown}`],
    [await admin.get(`/users/me/notes/${UNKNOWN_ID}`), `There is no note with ${unknown}`],
    [await admin.post(`/users/${UNKNOWN_ID}/notes`, note), 'The user_id in the path does not exist'],
    [await admin.get('/products/TEA-001'), 'The id in the path is not a UUID'],
  ] as const) {
    t.equal(reply.status, 404)
    t.equal(reply.body.error.code, 'RESOURCE_NOT_FOUND')
    t.equal(reply.body.error.message, message)
  }
})
