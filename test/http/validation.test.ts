/** Bodies are validated against the documented limits of each field, and all violations are reported. */
import t from 'tap'
import { type Json, testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { createNotesTable, resourcesWithNotes } from '../helpers/notes.ts'
import {
  createActiveProduct,
  createUniqueName,
  createVersionedClient,
  VERSIONS,
} from '../helpers/versioned-client.ts'

const WIDE = '\u{1F9E1}' // one code point, two UTF-16 units, four bytes
const times = (text: string, count: number) => text.repeat(count)
const email = (length: number) => {
  const domain = `${times(`${times('d', 60)}.`, 3)}com`
  return `${times('a', length - domain.length - 1)}@${domain}`
}

/** For a member: values that are taken, and values that are not, with the code of each. */
interface Bounds {
  good: unknown[]
  bad: [unknown, string][]
}

/** Both versions read members alike: the whole table is asked of one, and of the other one value for each code. */
const asked = ({ good, bad }: Bounds, version: number): Bounds =>
  version === 1
    ? { good, bad }
    : { good: good.slice(0, 1), bad: [...new Map(bad.map((each) => [each[1], each])).values()] }

const notText: [unknown, string][] = [5, true, [], {}, ['a']].map((value) => [value, 'INVALID_TYPE'])
const notInteger: [unknown, string][] = ['5', '', true, [5], {}, 0.5, 1e-7, null].map((value) => [
  value,
  'INVALID_TYPE',
])
/** That no member takes. */
const broken: [unknown, string][] = [
  'a\u0000b',
  'a\u001bb',
  'a\u007fb',
  'a\u0085b',
  'a\rb',
  'a\ud800b',
  '\udc00a',
].map((value) => [value, 'INVALID_FORMAT'])
const twoLines: [unknown, string][] = ['a\nb', 'a\tb', 'a\r\nb'].map((value) => [value, 'INVALID_FORMAT'])

const required = (max: number): Bounds => ({
  good: ['a', times('a', max), times(WIDE, max)],
  bad: [
    ['', 'TOO_SHORT'],
    ['  \t\n ', 'TOO_SHORT'],
    [times('a', max + 1), 'TOO_LONG'],
    [times(WIDE, max + 1), 'TOO_LONG'],
    [null, 'INVALID_TYPE'],
    ...notText,
    ...broken,
    ...twoLines,
  ],
})

const optional = (max: number, min = 0): Bounds => ({
  good: [null, times('a', max), times(WIDE, max), ...(min === 0 ? [''] : ['a'])],
  bad: [
    ...(min > 0 ? [['', 'TOO_SHORT'] as [unknown, string]] : []),
    [times('a', max + 1), 'TOO_LONG'],
    [times(WIDE, max + 1), 'TOO_LONG'],
    ...notText,
    ...broken,
    ...twoLines,
  ],
})

const lines = (max: number): Bounds => {
  const { good, bad } = optional(max)
  return { good: [...good, 'a\nb\tc'], bad: bad.filter(([value]) => !/^a(\n|\t|\r\n)b$/.test(String(value))) }
}

const integer = (min: number, max: number): Bounds => ({
  good: [min, max, min + 1],
  bad: [[min - 1, 'OUT_OF_RANGE'], [max + 1, 'OUT_OF_RANGE'], [2 ** 53, 'OUT_OF_RANGE'], ...notInteger],
})

const words = (...good: string[]): Bounds => ({
  good,
  bad: [
    ['other', 'INVALID_VALUE'],
    [good[0]?.toUpperCase(), 'INVALID_VALUE'],
    ['', 'INVALID_VALUE'],
    [null, 'INVALID_TYPE'],
    ...notText,
  ],
})

const uuid: Bounds = {
  good: [],
  bad: [
    ['', 'INVALID_FORMAT'],
    ['1', 'INVALID_FORMAT'],
    ['me', 'INVALID_FORMAT'],
    [`urn:uuid:${UNKNOWN_ID}`, 'INVALID_FORMAT'],
    [`{${UNKNOWN_ID}}`, 'INVALID_FORMAT'],
    [UNKNOWN_ID.replaceAll('-', ''), 'INVALID_FORMAT'],
    [`${UNKNOWN_ID}0`, 'INVALID_FORMAT'],
    [null, 'INVALID_TYPE'],
    ...notText,
  ],
}

const uri: Bounds = {
  good: [
    null,
    'https://a',
    'https://example.com/a?b=c#d',
    'https://user@example.com:8443/%C3%A9',
    'https://[::1]/',
    `https://example.com/${times('a', 2028)}`,
  ],
  bad: [
    [`https://example.com/${times('a', 2029)}`, 'TOO_LONG'],
    ...[
      '',
      'http://example.com',
      'ftp://example.com',
      'javascript:alert(1)',
      'data:text/html,x',
      '//example.com',
      'example.com',
      'https:example.com',
      'HTTPS://example.com',
      'https://é.example',
      'https://"/',
      'https://',
      'https:///path',
      'https://?q',
      'https://exa mple.com',
      'https://example.com/a b',
      'https://example.com/é',
      'https://example.com/"onerror=',
      'https://example.com/<script>',
      'https://example.com\\@evil.com',
      'https://example.com/%zz',
      'https://example.com:99999/',
    ].map((value): [unknown, string] => [value, 'INVALID_FORMAT']),
    ...notText,
  ],
}

const COUNTRY: Bounds = {
  good: ['GB', 'DE'],
  bad: [
    ...['gb', 'GBR', 'G', '', 'G1', 'ÄÖ'].map((value): [unknown, string] => [value, 'INVALID_FORMAT']),
    ...notText,
  ],
}

const currency: Bounds = {
  good: ['USD', 'EUR', 'JPY'],
  bad: [
    ...['usd', 'XYZ', 'US', 'USDX', '', '840', '$'].map((value): [unknown, string] => [
      value,
      'INVALID_FORMAT',
    ]),
    [null, 'INVALID_TYPE'],
    ...notText,
  ],
}

const emails: Bounds = {
  good: [
    'a@b.co',
    'first.last+tag@sub.example.com',
    "o'hara_1!#$%&*/=?^`{|}~-@example.com",
    'a@xn--bcher-kva.example',
    email(254),
  ],
  bad: [
    [email(255), 'TOO_LONG'],
    ...[
      '',
      'a',
      '@example.com',
      'a@',
      'a@b',
      'a@@example.com',
      'a b@example.com',
      '.a@example.com',
      'a.@example.com',
      'a..b@example.com',
      'a@.example.com',
      'a@example..com',
      'a@-example.com',
      'a@example.com.',
      'a@exam_ple.com',
      'a@[127.0.0.1]',
      '"a b"@example.com',
      'Ada <a@example.com>',
      'ä@example.com',
      'a@exämple.com',
      'a@example.com\n',
    ]
      .filter((value) => value.trim() === value)
      .map((value): [unknown, string] => [value, 'INVALID_FORMAT']),
    [null, 'INVALID_TYPE'],
    ...notText,
    ...broken,
  ],
}

const passwords: Bounds = {
  good: [times('p', 12), times(' ', 12), times(WIDE, 128), times('e\u0301', 128)],
  bad: [
    [times('p', 11), 'TOO_SHORT'],
    [times('p', 129), 'TOO_LONG'],
    [times(WIDE, 129), 'TOO_LONG'],
    [times(WIDE, 11), 'TOO_SHORT'],
    [null, 'INVALID_TYPE'],
    ...notText,
    [`${times('p', 12)}\u0000`, 'INVALID_FORMAT'],
    [`${times('p', 12)}\n`, 'INVALID_FORMAT'],
    [`${times('p', 12)}\ud800`, 'INVALID_FORMAT'],
  ],
}

const zones: Bounds = {
  good: [null, 'Europe/London', 'UTC', 'America/Argentina/Buenos_Aires', 'Asia/Calcutta', 'Etc/GMT+5'],
  bad: [
    ...['', 'Nowhere/Else', 'europe/london', '+01:00', 'GMT+1', 'Europe', 'Europe/London/x'].map(
      (value): [unknown, string] => [value, 'INVALID_FORMAT'],
    ),
    ...notText,
  ],
}

const locales: Bounds = {
  good: [null, 'en', 'en-US', 'zh-Hant-TW', 'de-CH-1901', 'sl-rozaj-biske', 'en-x-whatever'],
  bad: [
    ...['', 'e', 'en_US', 'en-', '-en', 'englishes', 'en-US-US', 'ä'].map((value): [unknown, string] => [
      value,
      'INVALID_FORMAT',
    ]),
    [`en-x-${times('abcdefg-', 40)}a`, 'TOO_LONG'],
    ...notText,
  ],
}

t.test('bodies', async (t) => {
  const started = await testApp(t, {}, { resources: resourcesWithNotes })
  const { admin: client, anybody, person, base } = started
  await createNotesTable(started.database)
  const member = await person('member')
  const first = createVersionedClient(client, 1)
  const product = await createActiveProduct(first, { stock: 1_000_000 })
  const user = (await first.post('/users', { name: 'Ada', email: `${createUniqueName('v')}@example.com` }))
    .data
  const profile = (await first.post('/user-profiles', { user_id: user.id })).data
  const note = (await first.post(`/users/${user.id}/notes`, { title: 'a', body: 'b' })).data
  const order = (await first.post('/orders', { items: [{ product_id: product.id, quantity: 1 }] })).data
  const spare = (await first.post('/products', { sku: createUniqueName('V'), name: 'a', price_amount: 1 }))
    .data

  /** For each collection: the resource to change, and the bounds of every member that can be written. */
  const resources: { path: string; members: Record<string, Bounds> }[] = [
    {
      path: `/users/${user.id}`,
      members: {
        name: required(200),
        email: emails,
        password: passwords,
        role: words('member', 'manager', 'admin', 'member'),
        status: words('active', 'inactive', 'suspended', 'active'),
        current_password: {
          good: ['a', times(WIDE, 128)],
          bad: [['', 'TOO_SHORT'], [times('p', 129), 'TOO_LONG'], [null, 'INVALID_TYPE'], ...notText],
        },
      },
    },
    {
      path: `/user-profiles/${profile.id}`,
      members: {
        display_name: optional(100, 1),
        bio: lines(1000),
        avatar_url: uri,
        website_url: uri,
        location: optional(100),
        time_zone: zones,
        locale: locales,
      },
    },
    {
      path: `/users/${user.id}/notes/${note.id}`,
      members: {
        title: required(200),
        body: {
          good: ['b', '  ', times('b', 100_000), times(WIDE, 100_000), 'a\r\nb\n\tc'],
          bad: [
            ['', 'TOO_SHORT'],
            [times('b', 100_001), 'TOO_LONG'],
            [times(WIDE, 100_001), 'TOO_LONG'],
            [null, 'INVALID_TYPE'],
            ...notText,
            ...broken,
          ],
        },
        status: words('draft', 'published'),
      },
    },
    {
      path: `/products/${spare.id}`,
      members: {
        sku: {
          good: ['a', times('Z', 64), '._-09azAZ'],
          bad: [
            ['', 'TOO_SHORT'],
            [times('a', 65), 'TOO_LONG'],
            ...['a b', 'a/b', 'ä', 'a\nb', WIDE].map((value): [unknown, string] => [value, 'INVALID_FORMAT']),
            [null, 'INVALID_TYPE'],
            ...notText,
          ],
        },
        name: required(200),
        description: lines(5000),
        price_amount: integer(0, 1_000_000_000_000),
        currency,
        stock: integer(0, 1_000_000_000),
        status: words('draft', 'active', 'archived'),
      },
    },
    {
      path: `/orders/${order.id}`,
      members: {
        note: lines(1000),
        status: { good: ['pending'], bad: words('pending').bad },
        shipping_address: {
          good: [null],
          bad: ['a', 5, true, []].map((value) => [value, 'INVALID_TYPE']),
        },
        items: {
          good: [],
          bad: [
            [[], 'TOO_SHORT'],
            [null, 'INVALID_TYPE'],
            ['a', 'INVALID_TYPE'],
            [{}, 'INVALID_TYPE'],
          ],
        },
      },
    },
  ]

  for (const { path, members } of resources) {
    for (const version of VERSIONS) {
      const admin = createVersionedClient(client, version)
      t.test(`v${version}: ${path.split('/').at(-2)}: every field at and beyond its bounds`, async (t) => {
        for (const [name, bounds] of Object.entries(members)) {
          const { good, bad } = asked(bounds, version)
          for (const value of good) {
            const reply = await admin.patch(path, { [name]: value })
            t.equal(reply.status, 200, `${name} takes ${JSON.stringify(value).slice(0, 40)}`)
          }
          for (const [value, code] of bad) {
            const reply = await admin.patch(path, { [name]: value })
            t.equal(reply.status, 422)
            t.same(reply.violations, [`${name} ${code}`], `${name}: ${JSON.stringify(value)?.slice(0, 40)}`)
          }
        }
      })
    }
  }

  for (const version of VERSIONS) {
    const admin = createVersionedClient(client, version)

    t.test(`v${version}: the fields of an address and of items`, async (t) => {
      const line = required(200)
      const inner: Record<string, Bounds> = {
        name: line,
        line1: line,
        line2: optional(200),
        city: required(100),
        region: optional(100),
        postal_code: required(20),
        country: COUNTRY,
      }
      const whole = { name: 'a', line1: 'a', city: 'a', postal_code: 'a', country: 'GB' }
      const path = `/orders/${order.id}`
      t.equal((await admin.patch(path, { shipping_address: whole })).status, 200)
      for (const [name, bounds] of Object.entries(inner)) {
        const { good, bad } = asked(bounds, version)
        for (const value of good) {
          t.equal((await admin.patch(path, { shipping_address: { [name]: value } })).status, 200, name)
        }
        for (const [value, code] of bad) {
          const reply = await admin.patch(path, { shipping_address: { [name]: value } })
          t.same(reply.violations, [`shipping_address.${name} ${code}`], `${name}: ${JSON.stringify(value)}`)
        }
      }
      const items = (value: unknown) => admin.patch(path, { items: [value] })
      for (const quantity of [1, 1000])
        t.equal((await items({ product_id: product.id, quantity })).status, 200)
      for (const [quantity, code] of integer(1, 1000).bad) {
        t.same((await items({ product_id: product.id, quantity })).violations, [`items.0.quantity ${code}`])
      }
      for (const [product_id, code] of uuid.bad) {
        t.same((await items({ product_id, quantity: 1 })).violations, [`items.0.product_id ${code}`])
      }
      t.same((await items({})).violations, ['items.0.product_id REQUIRED', 'items.0.quantity REQUIRED'])
      for (const value of ['a', 5, null, []])
        t.same((await items(value)).violations, ['items.0 INVALID_TYPE'])
    })

    t.test(`v${version}: an order has at most 100 items`, async (t) => {
      const many = []
      for (let i = 0; i < 101; i++)
        many.push({ product_id: UNKNOWN_ID.slice(0, -3) + String(100 + i), quantity: 1 })
      t.same((await admin.post('/orders', { items: many })).violations, ['items TOO_LONG'])
      const unknown = await admin.post('/orders', { items: many.slice(1) })
      t.equal(unknown.status, 422)
      t.equal(unknown.violations.length, 50, 'each is unknown, and 50 are reported')
    })

    t.test(`v${version}: user_id of a new profile and of a new order`, async (t) => {
      const items = [{ product_id: product.id, quantity: 1 }]
      for (const [user_id, code] of uuid.bad) {
        t.same((await admin.post('/user-profiles', { user_id })).violations, [`user_id ${code}`])
        t.same((await admin.post('/orders', { items, user_id })).violations, [`user_id ${code}`])
      }
    })

    t.test(`v${version}: a missing required field is reported by POST and PUT`, async (t) => {
      const lacking: [string, string, string[]][] = [
        ['/users', user.id, ['email', 'name']],
        ['/products', spare.id, ['name', 'price_amount', 'sku']],
        ['/orders', order.id, ['items']],
        [`/users/${user.id}/notes`, note.id, ['body', 'title']],
      ]
      for (const [path, id, names] of lacking) {
        const wrong = names.map((name) => `${name} REQUIRED`)
        t.same((await admin.post(path, {})).violations, wrong)
        t.same((await admin.put(`${path}/${id}`, {})).violations, wrong)
        const all = await admin.patch(`${path}/${id}`, Object.fromEntries(names.map((name) => [name, null])))
        t.same(
          all.violations,
          names.map((name) => `${name} INVALID_TYPE`),
          'null on what is required',
        )
        t.equal((await admin.patch(`${path}/${id}`, {})).status, 200)
      }
    })

    t.test(`v${version}: all violations are reported together`, async (t) => {
      const reply = await admin.post('/users', {
        name: '',
        email: 'nobody',
        password: 'short',
        role: 'king',
        status: 5,
        id: UNKNOWN_ID,
        created_at: 'x',
        colour: 'red',
      })
      t.equal(reply.status, 422)
      t.equal(reply.code, 'VALIDATION_ERROR')
      t.same(reply.violations, [
        'colour UNKNOWN_FIELD',
        'created_at READ_ONLY',
        'email INVALID_FORMAT',
        'id READ_ONLY',
        'name TOO_SHORT',
        'password TOO_SHORT',
        'role INVALID_VALUE',
        'status INVALID_TYPE',
      ])
      const nested = await admin.post('/orders', {
        items: [{ product_id: 'x', quantity: 0, sku: 'a' }, 5],
        shipping_address: { name: '', country: 'gb', planet: 'Mars' },
        note: 'a\u0000',
      })
      t.same(nested.violations, [
        'items.0.product_id INVALID_FORMAT',
        'items.0.quantity OUT_OF_RANGE',
        'items.0.sku READ_ONLY',
        'items.1 INVALID_TYPE',
        'note INVALID_FORMAT',
        'shipping_address.city REQUIRED',
        'shipping_address.country INVALID_FORMAT',
        'shipping_address.line1 REQUIRED',
        'shipping_address.name TOO_SHORT',
        'shipping_address.planet UNKNOWN_FIELD',
        'shipping_address.postal_code REQUIRED',
      ])
      const many = Object.fromEntries(Array.from({ length: 80 }, (_, i) => [`x${i}`, 1]))
      t.equal((await admin.post('/products', many)).violations.length, 50, 'but no more than 50')
    })

    t.test(`v${version}: names of Object.prototype are unknown fields`, async (t) => {
      for (const name of [
        'toString',
        'hasOwnProperty',
        'valueOf',
        '',
        'a.b',
        'length',
        '0',
        '\u{1F9E1}',
        'Name',
      ]) {
        for (const reply of [
          await admin.patch(`/products/${spare.id}`, { [name]: 1 }),
          await admin.put(`/products/${spare.id}`, {
            sku: spare.sku,
            name: 'a',
            price_amount: 1,
            [name]: {},
          }),
          await admin.post('/products', {
            sku: createUniqueName('U'),
            name: 'a',
            price_amount: 1,
            [name]: 'x',
          }),
        ]) {
          t.equal(reply.status, 422)
          t.same(reply.violations, [`${name} UNKNOWN_FIELD`])
        }
      }
    })

    t.test(`v${version}: strings are normalized to NFC and LF, and trimmed`, async (t) => {
      const path = `/products/${spare.id}`
      t.equal((await admin.patch(path, { name: '  Cafe\u0301 \u00a0\n' })).data.name, 'Caf\u00e9')
      t.equal((await admin.patch(path, { description: '\r\na\r\nb\r\n' })).data.description, 'a\nb')
      t.equal(
        (await admin.patch(path, { name: ` ${times('e\u0301', 200)} ` })).status,
        200,
        'before bounds are checked',
      )
      const body = (await admin.patch(`/users/${user.id}/notes/${note.id}`, { body: ' a\r\nCafe\u0301 \n' }))
        .data.body
      t.equal(body, ' a\nCaf\u00e9 \n', 'a body keeps its ends')
      t.equal((await admin.patch(path, { currency: ' EUR ' })).data.currency, 'EUR')
      t.same((await admin.patch(path, { description: '   ' })).data.description, '')
    })
  }

  const raw = (method: string, path: string, body: string, type = 'application/json') =>
    client.call(method, path, { body, headers: { 'content-type': type } })
  const codes = (reply: Json) =>
    (reply.body.error.details ?? reply.body.error.errors ?? []).map(
      (each: Json) => `${each.field} ${each.code}`,
    )

  t.test('numbers are accepted in every notation of JSON', async (t) => {
    const price = async (text: string) => {
      const reply = await raw('PATCH', `/products/${spare.id}`, `{"price_amount": ${text}}`)
      return reply.status === 200 ? reply.body.data.price_amount : codes(reply).join()
    }
    t.equal(await price('5.0'), 5)
    t.equal(await price('1e3'), 1000)
    t.equal(await price('-0'), 0)
    t.equal(await price('-0.0'), 0)
    t.equal(await price('1e12'), 1_000_000_000_000)
    t.equal(await price('1e400'), 'price_amount INVALID_TYPE')
    t.equal(await price('-1e400'), 'price_amount INVALID_TYPE')
    t.equal(await price('9007199254740992'), 'price_amount OUT_OF_RANGE')
    t.equal(await price('1e21'), 'price_amount OUT_OF_RANGE')
    t.equal(await price('0.1'), 'price_amount INVALID_TYPE')
    t.equal((await raw('PATCH', `/products/${spare.id}`, '{"price_amount": NaN}')).status, 400)
    t.equal((await raw('PATCH', `/products/${spare.id}`, '{"price_amount": 05}')).status, 400)
    t.match((await client.get(`/products/${spare.id}`)).text, /"price_amount":1000000000000,/)
  })

  t.test('a body that is not an object and forbidden keys are rejected with 400', async (t) => {
    const bodies = [
      '[]',
      '"text"',
      'null',
      '5',
      'true',
      '',
      '{',
      '{"a":1}}',
      "{'a':1}",
      '[{"name":"a"}]',
      'undefined',
    ]
    const keys = ['__proto__', 'constructor', '\\u005f_proto__', '__pr\\u006fto__', 'c\\u006fnstructor']
    const forbidden = keys.flatMap((key) => [
      `{"name":"a","${key}":{"x":1}}`,
      `{"${key}":null}`,
      `{"shipping_address":{"${key}":"x"}}`,
      `{"items":[{"${key}":{"prototype":{"a":1}}}]}`,
    ])
    for (const form of ['/api/v1', '/api/v2']) {
      for (const body of [...bodies, ...forbidden]) {
        for (const [method, path] of [
          ['POST', '/orders'],
          ['PUT', `/orders/${order.id}`],
          ['PATCH', `/orders/${order.id}`],
        ] as const) {
          const reply = await raw(method, form + path, body)
          t.equal(reply.status, 400, `${method} ${body}`)
          t.equal(reply.body.error.code, 'INVALID_REQUEST')
        }
      }
    }
    t.equal(({} as Json).x, undefined, 'and no object was changed by them')
  })

  t.test('v2: violations of a typed body name fields from its root', async (t) => {
    const typed = (attributes: unknown, rest = {}) => ({ data: { type: 'users', attributes, ...rest } })
    const reply = await client.post('/v2/users', typed({ name: '', email: 'a', colour: 1 }))
    t.equal(reply.status, 422)
    t.same(codes(reply).sort(), [
      'data.attributes.colour UNKNOWN_FIELD',
      'data.attributes.email INVALID_FORMAT',
      'data.attributes.name TOO_SHORT',
    ])
    const flat = await client.post('/v2/users', { name: '', email: 'a', colour: 1 })
    t.same(codes(flat).sort(), ['colour UNKNOWN_FIELD', 'email INVALID_FORMAT', 'name TOO_SHORT'])
    const taken = await client.post('/v2/users', typed({ name: 'Ada', email: 'admin@example.com' }))
    t.same(codes(taken), ['data.attributes.email ALREADY_EXISTS'])
    const stock = await client.post('/v2/orders', {
      data: { type: 'orders', attributes: { items: [{ product_id: spare.id, quantity: 1 }] } },
    })
    t.same(codes(stock), ['data.attributes.items.0.product_id NOT_FOUND'])
    const move = await client.patch(`/v2/orders/${order.id}`, {
      data: { type: 'orders', id: order.id.toUpperCase(), attributes: { status: 'completed' } },
    })
    t.same([move.status, ...codes(move)], [409, 'data.attributes.status INVALID_TRANSITION'])
    const merged = await client.patch(`/v2/orders/${order.id}`, {
      data: { type: 'orders', attributes: { shipping_address: null } },
    })
    t.equal(merged.status, 200)
    const partial = await client.patch(`/v2/orders/${order.id}`, {
      data: { type: 'orders', attributes: { shipping_address: { city: 'Bath', name: 'a', line1: 'b' } } },
    })
    t.same(codes(partial).sort(), [
      'data.attributes.shipping_address.country REQUIRED',
      'data.attributes.shipping_address.postal_code REQUIRED',
    ])
    t.same(codes(await client.post('/v2/users', typed({ name: 'A', email: 'a@b.co' }, { id: UNKNOWN_ID }))), [
      'data.id READ_ONLY',
    ])
    t.equal((await client.post('/v2/users', { data: { type: 'products', attributes: {} } })).status, 409)
    t.equal((await client.patch(`/v2/users/${user.id}`, typed({}, { id: UNKNOWN_ID }))).status, 409)
  })

  t.test('v1: a typed body is rejected', async (t) => {
    const reply = await client.post('/v1/users', { data: { type: 'users', attributes: {} } })
    t.same(codes(reply).sort(), ['data UNKNOWN_FIELD', 'email REQUIRED', 'name REQUIRED'])
  })

  t.test('the checks of a body run in the documented order', async (t) => {
    const status = async (call: Promise<Json>) => (await call).status
    const unknown = `/api/v1/products/${UNKNOWN_ID}`
    t.equal(await status(anybody.post('/api/v1/nothing', 'x')), 404, 'path')
    t.equal(await status(anybody.call('POST', unknown)), 405, 'method')
    t.equal(await status(anybody.get('/api/v1/products', { accept: 'text/html' })), 406, 'Accept')
    t.equal(await status(client.get('/products', { authorization: 'Bearer x' })), 400, 'two credentials')
    t.equal(await status(anybody.post('/products', '{')), 401, 'credentials')
    t.equal(await status(member.client.post('/products', '{')), 403, 'role')
    t.equal(await status(raw('POST', '/products?x=1', '{', 'text/plain')), 415, 'type')
    t.equal(await status(raw('POST', '/products?x=1', '{')), 400, 'syntax')
    const query = await client.post('/products?x=1', { colour: 1 })
    t.same([query.status, query.body.error.code], [400, 'VALIDATION_ERROR'], 'query')
    t.equal(await status(client.patch(unknown, { colour: 1 })), 422, 'members')
    t.equal(await status(client.patch(unknown, { stock: 1 }, { 'if-match': '"9-x"' })), 404, 'row')
    const foreign = `/orders/${order.id}`
    t.equal(await status(member.client.patch(foreign, { note: 'a' }, { 'if-match': '"9-x"' })), 403, 'access')
    t.equal(
      await status(client.patch(foreign, { status: 'completed' }, { 'if-match': '"999-x"' })),
      412,
      'precondition',
    )
    t.equal(await status(client.patch(foreign, { status: 'completed' })), 409, 'state')
  })

  t.test('no body leads to a 500 or to a message with SQL', async (t) => {
    const odd = [
      null,
      1e300,
      '',
      '\u0000',
      "'; drop table users; --",
      '\\',
      '\ud800',
      '\uffff',
      times('x', 5000),
      [null],
      { a: {} },
      { length: 5 },
      'infinity',
      UNKNOWN_ID,
    ]
    let calls = 0
    for (const { path, members } of resources) {
      for (const name of [...Object.keys(members), 'user_id', 'id', 'published_at']) {
        const replies = await Promise.all(
          odd.map((value, i) =>
            createVersionedClient(client, VERSIONS[i % 2] ?? 1).patch(path, { [name]: value }),
          ),
        )
        calls += replies.length
        for (const { status, text } of replies) {
          if (status >= 500 || /select |insert |update |\$1|violates|syntax/i.test(text)) {
            t.fail(`${path} ${name}: ${text.slice(0, 200)}`)
          }
        }
      }
    }
    t.ok(calls > 300)
    t.equal((await fetch(`${base}/livez`)).status, 200)
  })
})
