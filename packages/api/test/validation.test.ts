/** Bodies are validated against the documented limits of each field, and all violations are reported. */
import t, { type Test } from 'tap'
import { type Json, testApp, UNKNOWN_ID } from '../../testing/helpers/app.ts'
import { createNotes } from '../../testing/helpers/notes.ts'
import { getViolations } from '../../testing/helpers/replies.ts'
import {
  createActiveProduct,
  createUniqueName,
  createVersionedClient,
  VERSIONS,
  type VersionedClient,
} from '../../testing/helpers/versioned-client.ts'

const { admin: client } = await testApp(t, {}, await createNotes(t))
const clients = VERSIONS.map((version) => createVersionedClient(client, version))
const admin = createVersionedClient(client, 1)
const product = await createActiveProduct(admin, { stock: 1_000_000 })
const create = async (path: string, fields: Json) => (await admin.post(path, fields)).data
const user = await create('/users', { name: 'Ada', email: `${createUniqueName('v')}@example.com` })
const profile = await create('/user-profiles', { user_id: user.id })
const notes = `/users/${user.id}/notes`
const note = await create(notes, { title: 'a', body: 'b' })
const order = await create('/orders', { items: [{ product_id: product.id, quantity: 1 }] })
const spare = await create('/products', { sku: createUniqueName('V'), name: 'a', price_amount: 1 })

/** The values that a field takes, and those that it refuses, by the code of the violation. */
interface Bounds {
  good: unknown[]
  bad: Record<string, unknown[]>
}

/** Splits a list at white space. */
const list = (text: string) => text.trim().split(/\s+/)

const WIDE = '\u{1F9E1}' // one code point, two UTF-16 units, four bytes
const NOT_TEXT = [5, true, [], {}, ['a']]
/** Characters that no text takes. */
const CONTROLS = ['a\u0000b', 'a\u001bb', 'a\u007fb', 'a\u0085b', 'a\rb', 'a\ud800b', '\udc00a']
const BREAKS = ['a\nb', 'a\tb', 'a\r\nb']

const text = (good: unknown[], bad: Bounds['bad']): Bounds => {
  return { good, bad: { ...bad, INVALID_TYPE: [null, ...NOT_TEXT] } }
}
const nullable = (good: unknown[], bad: Bounds['bad']): Bounds => {
  return { good: [null, ...good], bad: { ...bad, INVALID_TYPE: NOT_TEXT } }
}
const tooLong = (max: number) => ['a'.repeat(max + 1), WIDE.repeat(max + 1)]
const longest = (max: number) => ['a'.repeat(max), WIDE.repeat(max)]

const required = (max: number) =>
  text(['a', ...longest(max)], {
    ...{ TOO_SHORT: ['', '  \t\n '], TOO_LONG: tooLong(max) },
    INVALID_FORMAT: [...CONTROLS, ...BREAKS],
  })
const optional = (max: number) =>
  nullable(['', ...longest(max)], { TOO_LONG: tooLong(max), INVALID_FORMAT: [...CONTROLS, ...BREAKS] })
const lines = (max: number) =>
  nullable(['', ...longest(max), 'a\nb\tc'], { TOO_LONG: tooLong(max), INVALID_FORMAT: CONTROLS })
const integer = (min: number, max: number): Bounds => {
  const notIntegers = ['5', '', true, [5], {}, 0.5, 1e-7, null]
  const bad = { OUT_OF_RANGE: [min - 1, max + 1, 2 ** 53], INVALID_TYPE: notIntegers }
  return { good: [min, max, min + 1], bad }
}
const words = (...good: string[]) => text(good, { INVALID_VALUE: ['other', good[0]?.toUpperCase(), ''] })

const uuid = text([], {
  INVALID_FORMAT: ['', UNKNOWN_ID.replaceAll('-', ''), ...list(`1 me {${UNKNOWN_ID}} ${UNKNOWN_ID}0`)],
})

const uris = `https://a https://example.com/a?b=c#d https://user@example.com:8443/%C3%A9 https://[::1]/
  HTTPS://Example.com/ hTTps://a https://example.com/${'a'.repeat(2028)}`
const notUris = `http://example.com javascript:alert(1) //example.com example.com https:example.com https://é.example
  https://"/ https:// https:///path https://?q https://example.com/é https://example.com/"onerror=
  https://example.com/<script> https://example.com/%zz https://example.com:99999/ https://example.com\\@evil.com`
const uri = nullable(list(uris), {
  TOO_LONG: [`https://example.com/${'a'.repeat(2029)}`],
  INVALID_FORMAT: ['', 'https://exa mple.com', 'https://example.com/a b', ...list(notUris)],
})

const email = (length: number) => {
  const domain = `${`${'d'.repeat(60)}.`.repeat(3)}com`
  return `${'a'.repeat(length - domain.length - 1)}@${domain}`
}
const addresses = `a@b.co first.last+tag@sub.example.com a@xn--bcher-kva.example
  o'hara_1!#$%&*/=?^\`{|}~-@example.com ${email(254)}`
const notAddresses = `a @example.com a@ a@b a@@example.com .a@example.com a.@example.com a..b@example.com
  a@.example.com a@example..com a@-example.com a@example.com. a@exam_ple.com a@[127.0.0.1] ä@example.com
  a@exämple.com`
const emails = text(list(addresses), {
  TOO_LONG: [email(255)],
  INVALID_FORMAT: [
    ...['', 'a b@example.com', '"a b"@example.com', 'Ada <a@example.com>', ...CONTROLS],
    ...list(notAddresses),
  ],
})

const password = 'p'.repeat(12)
const passwords = text([password, ' '.repeat(12), WIDE.repeat(128), 'e\u0301'.repeat(128)], {
  ...{ TOO_SHORT: ['p'.repeat(11), WIDE.repeat(11)], TOO_LONG: tooLong(128) },
  INVALID_FORMAT: [`${password}\u0000`, `${password}\n`, `${password}\ud800`],
})

/** The bounds of every field of a body, by the path of the resource. */
const resources: Record<string, Record<string, Bounds>> = {
  [`/users/${user.id}`]: {
    ...{ name: required(200), email: emails, password: passwords },
    role: words('member', 'manager', 'admin', 'member'),
    status: words('active', 'inactive', 'suspended', 'active'),
    current_password: text(['a', WIDE.repeat(128)], { TOO_SHORT: [''], TOO_LONG: ['p'.repeat(129)] }),
  },
  [`/user-profiles/${profile.id}`]: {
    display_name: nullable(['a', ...longest(100)], { ...optional(100).bad, TOO_SHORT: [''] }),
    ...{ bio: lines(1000), avatar_url: uri, website_url: uri, location: optional(100) },
    time_zone: nullable(list('Europe/London UTC America/Argentina/Buenos_Aires Asia/Calcutta Etc/GMT+5'), {
      INVALID_FORMAT: ['', ...list('Nowhere/Else europe/london +01:00 GMT+1 Europe Europe/London/x')],
    }),
    locale: nullable(list('en en-US zh-Hant-TW de-CH-1901 sl-rozaj-biske en-x-whatever'), {
      INVALID_FORMAT: ['', ...list('e en_US en- -en englishes en-US-US ä')],
      TOO_LONG: [`en-x-${'abcdefg-'.repeat(40)}a`],
    }),
  },
  [`${notes}/${note.id}`]: {
    title: required(200),
    body: text(['b', '  ', ...longest(100_000), 'a\r\nb\n\tc'], {
      ...{ TOO_SHORT: [''], TOO_LONG: tooLong(100_000), INVALID_FORMAT: CONTROLS },
    }),
    status: words('draft', 'published'),
  },
  [`/products/${spare.id}`]: {
    sku: text(['a', 'Z'.repeat(64), '._-09azAZ'], {
      ...{ TOO_SHORT: [''], TOO_LONG: ['a'.repeat(65)], INVALID_FORMAT: ['a b', 'a/b', 'ä', 'a\nb', WIDE] },
    }),
    ...{ name: required(200), description: lines(5000) },
    price_amount: integer(0, 1_000_000_000_000),
    currency: text(['USD', 'EUR', 'JPY'], { INVALID_FORMAT: ['', ...list('usd XYZ US USDX 840 $')] }),
    stock: integer(0, 1_000_000_000),
    status: words('draft', 'active', 'archived'),
  },
  [`/orders/${order.id}`]: {
    ...{ note: lines(1000), status: words('pending') },
    shipping_address: { good: [null], bad: { INVALID_TYPE: ['a', 5, true, []] } },
    items: { good: [], bad: { TOO_SHORT: [[]], INVALID_TYPE: [null, 'a', {}] } },
  },
}

type Send = (by: VersionedClient, values: Json) => ReturnType<VersionedClient['patch']>

/**
 * Sends the first values of all fields together, then the second ones and so on, to one of the versions in turn.
 * @param prefix the place of the fields in the body
 */
async function checkBounds(t: Test, fields: Record<string, Bounds>, send: Send, prefix = '') {
  const names = Object.keys(fields)
  const good = names.map((name) => (fields[name]?.good ?? []).map((value) => ({ name, value, code: '' })))
  const bad = names.map((name) =>
    Object.entries(fields[name]?.bad ?? {}).flatMap(([code, values]) =>
      values.map((value) => ({ name, value, code })),
    ),
  )
  for (const cases of [good, bad]) {
    for (let i = 0; i < Math.max(...cases.map(({ length }) => length)); i++) {
      const sent = cases.flatMap((each) => each.slice(i, i + 1))
      const values = Object.fromEntries(sent.map(({ name, value }) => [name, value]))
      const { status, violations, text } = await send(clients[i % clients.length] ?? admin, values)
      const expected = sent.filter(({ code }) => code).map(({ name, code }) => `${prefix}${name} ${code}`)
      t.same(violations, expected.sort(), JSON.stringify(values).slice(0, 400))
      t.equal(status, cases === bad ? 422 : 200, text.slice(0, 200))
    }
  }
}

for (const [path, fields] of Object.entries(resources)) {
  t.test(`${path.split('/').at(-2)}: every field at and beyond its bounds`, async (t) => {
    await checkBounds(t, fields, (by, values) => by.patch(path, values))
  })
}

t.test('the fields of an address, of an item and of an owner at and beyond their bounds', async (t) => {
  const address: Record<string, Bounds> = {
    ...{ name: required(200), line1: required(200), line2: optional(200) },
    ...{ city: required(100), region: optional(100), postal_code: required(20) },
    country: {
      good: ['GB', 'DE'],
      bad: { INVALID_FORMAT: ['', ...list('gb GBR G G1 ÄÖ')], INVALID_TYPE: NOT_TEXT },
    },
  }
  const path = `/orders/${order.id}`
  const whole = { name: 'a', line1: 'a', city: 'a', postal_code: 'a', country: 'GB' }
  t.equal((await admin.patch(path, { shipping_address: whole })).status, 200)
  const sendAddress: Send = (by, shipping_address) => by.patch(path, { shipping_address })
  await checkBounds(t, address, sendAddress, 'shipping_address.')
  const item = { quantity: integer(1, 1000), product_id: uuid }
  const sendItem: Send = (by, values) =>
    by.patch(path, { items: [{ product_id: product.id, quantity: 1, ...values }] })
  await checkBounds(t, item, sendItem, 'items.0.')
  const items = { 0: { good: [], bad: { INVALID_TYPE: ['a', 5, null, []] } } }
  await checkBounds(t, items, (by, values) => by.patch(path, { items: [values[0]] }), 'items.')
  const empty = await admin.patch(path, { items: [{}] })
  t.same(empty.violations, ['items.0.product_id REQUIRED', 'items.0.quantity REQUIRED'])

  const one = [{ product_id: product.id, quantity: 1 }]
  await checkBounds(t, { user_id: uuid }, (by, values) => by.post('/user-profiles', values))
  await checkBounds(t, { user_id: uuid }, (by, values) => by.post('/orders', { items: one, ...values }))
  const many = Array.from({ length: 101 }, (_, i) => {
    return { product_id: `${UNKNOWN_ID.slice(0, -3)}${100 + i}`, quantity: 1 }
  })
  t.same((await admin.post('/orders', { items: many })).violations, ['items TOO_LONG'])
  const unknown = await admin.post('/orders', { items: many.slice(1) })
  t.equal(unknown.violations.length, 50, 'each is unknown, and 50 are reported')
})

t.test('a missing required field is reported by POST and PUT', async (t) => {
  for (const [path, id, missing] of [
    ['/users', user.id, ['email REQUIRED', 'name REQUIRED']],
    ['/products', spare.id, ['name REQUIRED', 'price_amount REQUIRED', 'sku REQUIRED']],
    ['/orders', order.id, ['items REQUIRED']],
    [notes, note.id, ['body REQUIRED', 'title REQUIRED']],
  ] as const) {
    for (const { post, put, patch } of clients) {
      for (const reply of [await post(path, {}), await put(`${path}/${id}`, {})])
        t.same(reply.violations, missing)
      t.equal((await patch(`${path}/${id}`, {})).status, 200)
    }
  }
})

t.test('all violations are reported together', async (t) => {
  for (const { post } of clients) {
    const flat = await post('/users', {
      ...{ name: '', email: 'no-address', password: 'short', role: 'king', status: 5 },
      ...{ id: UNKNOWN_ID, created_at: 'x', colour: 'red' },
    })
    t.match(flat, { status: 422, code: 'VALIDATION_ERROR' })
    t.same(flat.violations, [
      ...['colour UNKNOWN_FIELD', 'created_at READ_ONLY', 'email INVALID_FORMAT', 'id READ_ONLY'],
      ...['name TOO_SHORT', 'password TOO_SHORT', 'role INVALID_VALUE', 'status INVALID_TYPE'],
    ])
    const nested = await post('/orders', {
      items: [{ product_id: 'x', quantity: 0, sku: 'a' }, 5],
      shipping_address: { name: '', country: 'gb', planet: 'Mars' },
      note: 'a\u0000',
    })
    const inAddress = ['city REQUIRED', 'country INVALID_FORMAT', 'line1 REQUIRED', 'name TOO_SHORT']
    t.same(nested.violations, [
      ...['items.0.product_id INVALID_FORMAT', 'items.0.quantity OUT_OF_RANGE', 'items.0.sku READ_ONLY'],
      ...['items.1 INVALID_TYPE', 'note INVALID_FORMAT'],
      ...[...inAddress, 'planet UNKNOWN_FIELD', 'postal_code REQUIRED'].map(
        (each) => `shipping_address.${each}`,
      ),
    ])
  }
})

t.test('names of Object.prototype are unknown fields', async (t) => {
  const names = ['toString', 'hasOwnProperty', 'valueOf', '', 'a.b', 'length', '0', WIDE, 'Name']
  const unknown = Object.fromEntries(names.map((name) => [name, 1]))
  const whole = { sku: createUniqueName('U'), name: 'a', price_amount: 1, ...unknown }
  for (const { post, put, patch } of clients) {
    for (const reply of [
      await patch(`/products/${spare.id}`, unknown),
      await put(`/products/${spare.id}`, whole),
      await post('/products', whole),
    ])
      t.same(reply.violations, names.map((name) => `${name} UNKNOWN_FIELD`).sort())
  }
})

t.test('strings are normalized to NFC and LF, and trimmed', async (t) => {
  const path = `/products/${spare.id}`
  for (const { patch } of clients) {
    t.equal((await patch(path, { name: '  Cafe\u0301 \u00a0\n' })).data.name, 'Caf\u00e9')
    t.equal((await patch(path, { description: '\r\na\r\nb\r\n' })).data.description, 'a\nb')
    t.equal((await patch(path, { description: '   ' })).data.description, '')
    t.equal((await patch(path, { currency: ' EUR ' })).data.currency, 'EUR')
    const long = ` ${'e\u0301'.repeat(200)} `
    t.equal((await patch(path, { name: long })).status, 200, 'before bounds are checked')
    const { data } = await patch(`${notes}/${note.id}`, { body: ' a\r\nCafe\u0301 \n' })
    t.equal(data.body, ' a\nCaf\u00e9 \n', 'a body keeps its ends')
  }
})

const sendJson = (method: string, path: string, body: string) =>
  client.call(method, path, { body, headers: { 'content-type': 'application/json' } })

t.test('numbers are accepted in every notation of JSON', async (t) => {
  const path = `/products/${spare.id}`
  const cases: [expected: number | string, ...texts: string[]][] = [
    [0, '-0', '-0.0'],
    [5, '5.0'],
    ['price_amount INVALID_TYPE', '1e400', '-1e400', '0.1'],
    ['price_amount OUT_OF_RANGE', '9007199254740992', '1e21'],
    [1_000_000_000_000, '1e12'],
  ]
  for (const [expected, ...texts] of cases) {
    for (const text of texts) {
      const reply = await sendJson('PATCH', path, `{"price_amount": ${text}}`)
      t.same(reply.body.data?.price_amount ?? getViolations(reply).join(), expected, text)
    }
  }
  for (const text of ['NaN', '05']) {
    t.equal((await sendJson('PATCH', path, `{"price_amount": ${text}}`)).status, 400, text)
  }
  t.match((await client.get(path)).text, /"price_amount":1000000000000,/)
})

t.test('a body that is not an object and forbidden keys are rejected with 400', async (t) => {
  const keys = ['__proto__', 'constructor', '\\u005f_proto__', '__pr\\u006fto__', 'c\\u006fnstructor']
  const bodies = [
    ...['[]', '"text"', 'null', '5', 'true', '', '{', '{"a":1}}', "{'a':1}", '[{"name":"a"}]', 'undefined'],
    ...keys.flatMap((key) => [
      ...[`{"name":"a","${key}":{"x":1}}`, `{"${key}":null}`, `{"shipping_address":{"${key}":"x"}}`],
      `{"items":[{"${key}":{"prototype":{"a":1}}}]}`,
    ]),
  ]
  const requests = [
    'POST /v1/orders',
    'POST /v2/orders',
    `PUT /v1/orders/${order.id}`,
    `PATCH /v2/orders/${order.id}`,
  ]
  for (const body of bodies) {
    for (const request of requests) {
      const [method = '', path = ''] = request.split(' ')
      const reply = await sendJson(method, path, body)
      t.same([reply.status, reply.body.error.code], [400, 'INVALID_REQUEST'], `${request} ${body}`)
    }
  }
  t.equal(({} as Json).x, undefined, 'and no object was changed by them')
})

t.test('v2: violations of a typed body name fields from its root; v1 takes no typed body', async (t) => {
  const typed = (type: string, attributes: unknown) => ({ data: { type, attributes } })
  const invalid = { name: '', email: 'a', colour: 1 }
  const taken = { name: 'Ada', email: 'admin@example.com' }
  const items = [{ product_id: spare.id, quantity: 1 }]
  const shipping_address = { city: 'Bath', name: 'a', line1: 'b' }
  const path = `/v2/orders/${order.id}`
  t.equal((await client.patch(path, { shipping_address: null })).status, 200)
  for (const [method, url, body, expected] of [
    ['POST', '/v2/users', invalid, 'colour UNKNOWN_FIELD, email INVALID_FORMAT, name TOO_SHORT'],
    [
      ...['POST', '/v2/users', typed('users', invalid)],
      'data.attributes.colour UNKNOWN_FIELD, data.attributes.email INVALID_FORMAT, data.attributes.name TOO_SHORT',
    ],
    ['POST', '/v2/users', typed('users', taken), 'data.attributes.email ALREADY_EXISTS'],
    ['POST', '/v2/orders', typed('orders', { items }), 'data.attributes.items.0.product_id NOT_FOUND'],
    ['PATCH', path, typed('orders', { status: 'completed' }), 'data.attributes.status INVALID_TRANSITION'],
    [
      ...['PATCH', path, typed('orders', { shipping_address })],
      'data.attributes.shipping_address.country REQUIRED, data.attributes.shipping_address.postal_code REQUIRED',
    ],
    ['POST', '/v1/users', typed('users', {}), 'data UNKNOWN_FIELD, email REQUIRED, name REQUIRED'],
  ] as [method: string, url: string, body: unknown, expected: string][])
    t.equal(getViolations(await client.call(method, url, { body })).join(', '), expected, `${method} ${url}`)
})
