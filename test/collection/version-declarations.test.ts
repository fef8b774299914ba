/** A declaration of a version's fields that cannot be right stops the start, and names the definition and the field. */
import { Type } from '@sinclair/typebox'
import t from 'tap'
import { compileResources } from '../../plugins/collection/compile.ts'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import type { VersionFields } from '../../plugins/collection/fields.ts'
import { usersResource } from '../../plugins/resources/users.ts'
import { ordersResource } from '../fixtures/resources/orders.ts'
import { productsResource } from '../fixtures/resources/products.ts'
import { testApp } from '../helpers/app.ts'
import { notesResource } from '../helpers/notes.ts'

const added = { schema: Type.String(), value: () => 'x' }

/** Returns the message with which the start fails. */
function getRefusal(definition: ResourceDefinition, fields: VersionFields, version = 3): string {
  const withFields = { ...definition, relations: {}, versions: { [version]: fields } }
  const others = [usersResource, ordersResource, notesResource].filter(({ name }) => name !== definition.name)
  const unrelated = others.map((other) => ({ ...other, relations: {} }))
  try {
    compileResources([withFields, ...unrelated], [1, 2, 3])
    return ''
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

/** Mistakes in the fields of products, and the message that follows "products: the fields of version 3: ". */
const MISTAKES: [problem: string, fields: VersionFields, message: RegExp][] = [
  ['an unknown field is renamed', { rename: { nme: 'title' } }, /no field "nme"; the fields/],
  ['an unknown field is hidden', { hide: ['stok'] }, /there is no field "stok"/],
  ['two fields have one name', { rename: { name: 'sku' } }, /two fields have the name "sku"$/],
  ['the id is hidden', { hide: ['id'] }, /"id" cannot be renamed or hidden/],
  [
    'the time of creation is renamed',
    { rename: { created_at: 'created' } },
    /"created_at" cannot be renamed or hidden: every version has it/,
  ],
  [
    'a field is renamed and hidden',
    { rename: { stock: 'quantity' }, hide: ['stock'] },
    /"stock" is both renamed and hidden/,
  ],
  [
    'a required field without a default is hidden',
    { hide: ['sku'] },
    /"sku" cannot be hidden: it is required at creation and has no default/,
  ],
  ['an added field has the name of a field', { add: { stock: added } }, /"stock" cannot be added/],
  [
    'an added field has the name of a hidden field',
    { hide: ['stock'], add: { stock: added } },
    /"stock" cannot be added: a field has that name/,
  ],
  [
    'an added field has the new name of a field',
    { rename: { name: 'title' }, add: { title: added } },
    /"title" cannot be added/,
  ],
  [
    'a name is not in snake_case',
    { rename: { name: 'fullName' }, add: { 'a.b': added } },
    /"fullName" is no name of a field: use snake_case\nproducts: the fields of version 3: "a\.b" is no name/,
  ],
  [
    'a filter has the name of a parameter',
    { rename: { status: 'page' } },
    /"page" cannot be the name of a filter/,
  ],
]

for (const [problem, fields, message] of MISTAKES) {
  t.test(`the start fails if ${problem}`, async (t) => {
    const refusal = getRefusal(productsResource, fields)
    t.match(refusal, message)
    t.ok(refusal.startsWith('products: the fields of version 3: '), refusal)
  })
}

t.test("the start fails if the parent's id is renamed", async (t) => {
  const refusal = getRefusal(notesResource, { rename: { user_id: 'author_id' } })
  t.match(refusal, /^notes: the fields of version 3: .* names a parameter/)
})

t.test('the start fails for a version that does not exist', async (t) => {
  t.equal(
    getRefusal(productsResource, { hide: ['stock'] }, 9),
    'products: the fields of version 9: there is no such version; the versions are 1, 2, 3',
  )
  const early = { ...productsResource, versions: { 3: { hide: ['stock'] } } }
  await t.rejects(testApp(t, {}, { resources: [early] }), {
    message: 'products: the fields of version 3: there is no such version; the versions are 1, 2',
  })
})

t.test('the mistakes of all versions are reported together with the others', async (t) => {
  const products = { ...productsResource, versions: { 2: { hide: ['stok'] }, 3: { rename: { id: 'key' } } } }
  const orders = {
    ...ordersResource,
    negations: [],
    filters: ['statuss'],
    versions: { 3: { rename: { note: 'user' } } },
  }
  t.throws(() => compileResources([products, usersResource, orders], [1, 2, 3]), {
    message: new RegExp(
      [
        '^products: the fields of version 2: there is no field "stok".*',
        'products: the fields of version 3: "id" cannot be renamed or hidden.*',
        'orders: filter "statuss" is not a field.*',
        'orders: the fields of version 3: "user" is the name of a relation$',
      ].join('\n'),
    ),
  })
})

t.test('a field may have the name of a relation to a resource that is not registered', async (t) => {
  const orders = { ...ordersResource, versions: { 3: { rename: { note: 'user' } } } }
  t.doesNotThrow(() => compileResources([orders], [1, 2, 3]))
})

t.test('the start fails if a field has the name of a relation', async (t) => {
  const orders = { ...ordersResource, versions: { 3: { rename: { note: 'user' } } } }
  const products = { ...productsResource, relations: {} }
  const users = { ...usersResource, relations: {} }
  t.throws(() => compileResources([orders, products, users], [1, 2, 3]), {
    message: 'orders: the fields of version 3: "user" is the name of a relation',
  })
})

t.test('names may be exchanged, and hidden fields with a default need not be sent', async (t) => {
  t.equal(getRefusal(notesResource, { rename: { title: 'body', body: 'title' }, hide: ['user_id'] }), '')
  t.equal(getRefusal(productsResource, { hide: ['stock', 'currency'], rename: { name: 'stock' } }), '')
})
