/** A declaration of a version's fields that cannot be right stops the start, and names the definition and the field. */
import { Type } from '@sinclair/typebox'
import t from 'tap'
import type { VersionFields } from '../../plugins/collection/fields.ts'
import { usersResource } from '../../plugins/resources/users.ts'
import { notesResource } from '../helpers/notes.ts'
import { type Definition, findMistakes, ordersResource, productsResource, testMistakes } from './mistakes.ts'

const added = { schema: Type.String(), value: () => 'x' }
const declare = (fields: VersionFields, version = 2): Definition => ({ versions: { [version]: fields } })
const OF_2 = 'the fields of version 2: '

testMistakes(
  'mistakes in the fields of a version stop the start',
  [
    [declare({ rename: { nme: 'title' } }), /^the fields of version 2: there is no field "nme"; the fields/],
    [declare({ hide: ['stok'] }), `${OF_2}there is no field "stok"`],
    [declare({ rename: { name: 'sku' } }), `${OF_2}two fields have the name "sku"`],
    [declare({ hide: ['id'] }), `${OF_2}"id" cannot be renamed or hidden`],
    [
      declare({ rename: { created_at: 'created' } }),
      `${OF_2}"created_at" cannot be renamed or hidden: every version has it`,
    ],
    [
      declare({ rename: { stock: 'quantity' }, hide: ['stock'] }),
      `${OF_2}"stock" is both renamed and hidden`,
    ],
    [
      declare({ hide: ['sku'] }),
      `${OF_2}"sku" cannot be hidden: it is required at creation and has no default`,
    ],
    [declare({ add: { stock: added } }), `${OF_2}"stock" cannot be added`],
    [
      declare({ hide: ['stock'], add: { stock: added } }),
      `${OF_2}"stock" cannot be added: a field has that name`,
    ],
    [declare({ rename: { name: 'title' }, add: { title: added } }), `${OF_2}"title" cannot be added`],
    [
      declare({ rename: { name: 'fullName' }, add: { 'a.b': added } }),
      `${OF_2}"fullName" is no name of a field: use snake_case`,
      `${OF_2}"a.b" is no name`,
    ],
    [declare({ rename: { status: 'page' } }), `${OF_2}"page" cannot be the name of a filter`],
    [
      declare({ hide: ['stock'] }, 9),
      'the fields of version 9: there is no such version; the versions are 1, 2',
    ],
    // Hidden fields with a default need not be sent.
    [declare({ hide: ['stock', 'currency'], rename: { name: 'stock' } })],
  ],
  productsResource,
)

testMistakes(
  "the parent's id cannot be renamed, and names may be exchanged",
  [
    [declare({ rename: { user_id: 'author_id' } }), /^the fields of version 2: .* names a parameter/],
    [declare({ rename: { title: 'body', body: 'title' }, hide: ['user_id'] })],
  ],
  notesResource,
)

const renamed = declare({ rename: { note: 'user' } })
testMistakes('a field cannot have the name of a relation', [
  [renamed, `${OF_2}"user" is the name of a relation`],
])

t.test('the mistakes of all versions are reported together with the others', async (t) => {
  const products = { ...productsResource, versions: { 2: { hide: ['stok'] }, 3: { rename: { id: 'key' } } } }
  const orders = { ...ordersResource, filters: ['statuss'], ...renamed }
  const found = findMistakes([products, usersResource, orders], [1, 2, 3])
  t.match(found, [
    /^products: the fields of version 2: there is no field "stok"/,
    /^products: the fields of version 3: "id" cannot be renamed or hidden/,
    /^orders: filter "statuss" is not a field/,
    /^orders: the fields of version 2: "user" is the name of a relation$/,
  ])
  t.equal(found.length, 4)
  t.same(findMistakes([{ ...ordersResource, ...renamed }]), [], 'users are not registered')
})
