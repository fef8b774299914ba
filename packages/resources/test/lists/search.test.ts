/** search finds the rows that contain every word, `name_prefix` those whose field begins with a text, ignoring case. */
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { testApp } from '../../../testing/helpers/app.ts'
import { collectIds, getIds } from '../../../testing/helpers/replies.ts'
import { insertRows } from '../../../testing/helpers/rows.ts'
import { foldCase } from '../../src/sql/case-folding.ts'
import { createListTables } from './list-tables.ts'

const { admin, database, person } = await testApp(t)

const { check, name } = createListTables(database, admin)
let count = 0
const create = async (name: string, description: string | null = null, sku = `S-${++count}`) => {
  const reply = await admin.post('/products', { sku, name, description, price_amount: 1 })
  if (reply.status !== 201) throw new Error(reply.text)
  return String(reply.body.data.id)
}
const find = async (parameter: string, text: string) => {
  const reply = await admin.get(`/products?limit=100&${parameter}=${encodeURIComponent(text)}`)
  if (reply.status !== 200) throw new Error(reply.text)
  return getIds(reply)
}
const search = (words: string) => find('search', words)

t.test("case folding is Unicode's full case folding, for every character", async (t) => {
  const text = readFileSync(new URL('../../../testing/helpers/case-folding.txt', import.meta.url), 'utf8')
  const foldings = new Map<string, string>()
  const entries = text.replaceAll(/^#.*\n/gm, '').matchAll(/(\w+)(?:-(\w+))?(\/2)?:([\w+]+)/g)
  for (const [, from = '', last = from, isEverySecond, to = ''] of entries) {
    const [first, end, ...targets] = [from, last, ...to.split('+')].map((hex) => Number.parseInt(hex, 16))
    for (let code = Number(first); code <= Number(end); code += isEverySecond ? 2 : 1) {
      const folded = targets.map((target) => target + code - Number(first))
      foldings.set(String.fromCodePoint(code), String.fromCodePoint(...folded))
    }
  }
  t.equal(foldings.size, 1585)
  const unicode = (text: string) =>
    [...text]
      .map((letter) => foldings.get(letter) ?? letter)
      .join('')
      .normalize('NFC')
  // Which letter stands for its kind does not matter (foldCase has some upper-case Cherokee): who shares one does.
  const [split, merged] = [new Map<string, string>(), new Map<string, string>()]
  let wrong = 0
  for (let code = 0; code <= 0x10ffff; code++) {
    if (code >= 0xd800 && code <= 0xdfff) continue
    const letter = String.fromCodePoint(code)
    // What this Node's Unicode does not know yet, it cannot fold; and scripts of tens of thousands have no case.
    if (/[\p{Cn}\p{Co}\p{Script=Han}\p{Script=Hangul}]/u.test(letter)) continue
    const [theirs, ours] = [unicode(letter.normalize('NFC')), foldCase(letter.normalize('NFC'))]
    if ((split.get(theirs) ?? ours) !== ours || (merged.get(ours) ?? theirs) !== theirs) wrong += 1
    split.set(theirs, ours)
    merged.set(ours, theirs)
    if (foldCase(ours) !== ours) wrong += 1
  }
  t.equal(wrong, 0)
})

/** Checks that exactly these texts of a parameter find a row, and these do not. */
async function checkTexts(t: Test, id: string, parameter: string, hits: string[], misses: string[]) {
  for (const [text, isHit] of [
    ...hits.map((hit) => [hit, true] as const),
    ...misses.map((miss) => [miss, false] as const),
  ])
    t.equal((await find(parameter, text)).includes(id), isHit, `${parameter} ${text}`)
}

t.test('case is ignored in the searched text and in the row', async (t) => {
  // A name; what finds it, what does not; which prefixes do, and which do not.
  const kinds = `Straße nach Ulm | straße STRASSE strasse STRAẞE ras sse | strase strabe | straße STRASSE Stras STRAẞE | strase nach traße
    ΟΔΥΣΣΕΥΣ | οδυσσευς Οδυσσευσ σευς ΣΕΥΣ | οδυσευς | οδυσσευς Οδυσ | δυσ
    Élodie | élodie ÉLODIE e\u0301lodie E\u0301LODIE | elodie | é E\u0301L | e elodie
    Zoe\u0308 | zoë ZOË ZOE\u0308 | zoe\u0301 | zoë | zoe\u0301
    Kadın | kadın KADın | kadin | kadı | kadi
    ISTANBUL | istanbul Istanbul | ıstanbul | ist | ıst
    Ǆungla | ǆungla ǅungla ǄUNGLA | | ǆ |
    ﬁnance | FINANCE finance ﬁnance | | F FINANCE fi |
    Ω Ohm | ω Ω ohm | | ω | ohm
    𐐀deseret | 𐐨DESERET | | 𐐨DES |
    日本語テスト | 日本語 テスト | てすと | 日 日本語 | テスト`
  for (const line of kinds.split('\n')) {
    const [name = '', ...texts] = line.split('|').map((part) => part.trim())
    const [hits = [], misses = [], prefixes = [], others = []] = texts.map((text) =>
      text.split(' ').filter(Boolean),
    )
    const id = await create(name)
    await checkTexts(t, id, 'search', hits, misses)
    await checkTexts(t, id, 'name_prefix', prefixes, others)
  }
})

t.test('what SQL treats specially is literal, in a prefix commas and white space as well', async (t) => {
  const names = ['100% cotton', 'snake_case', '\\temp', 'Salt, sea', 'New oat', 'Newton']
  const ids: string[] = []
  for (const name of names) ids.push(await create(name))
  // The texts that find each of the names.
  const hits: Record<string, string[][]> = {
    search: [['100%', '%'], ['e_c', '_'], ['\\t', '\\'], [], [], []],
    name_prefix: [['100%'], ['snake_'], ['\\', '\\t'], ['salt,', 'salt, s'], ['new ', 'new'], ['new']],
  }
  const misses: Record<string, string[]> = {
    search: ['1%cotton', 'snake%', '\\%', "' or 1=1 --"],
    name_prefix: ['100_', '%', 'snake__', '_', '\\\\', ' new', "' or 1=1 --", '$1'],
  }
  for (const [parameter, all] of Object.entries(hits)) {
    for (const text of [...new Set(all.flat()), ...(misses[parameter] ?? [])]) {
      const expected = ids.filter((_, i) => all[i]?.includes(text)).reverse()
      t.same(await find(parameter, text), expected, `${parameter} ${text}`)
    }
  }
})

t.test('each prefix is that of its own field alone', async (t) => {
  const id = await create('Kettle', 'Zinnia\nOnyx', 'CUP.1')
  name('kettle', id)
  const user = await admin.post('/users', { name: 'Grace Hopper', email: 'Navy@example.com' })
  name('grace', user.body.data.id)
  await check(
    t,
    `/products?sku_prefix=cup. -> kettle
    /products?sku_prefix=kettle ->
    /products?name_prefix=KETTLE -> kettle
    /products?name_prefix=cup. ->
    /products?name_prefix=zinnia ->
    /products?name_prefix=onyx ->
    /products?name_prefix=ket&sku_prefix=cup&status=draft -> kettle
    /products?name_prefix=ket&sku_prefix=S- ->
    /users?name_prefix=grace%20h -> grace
    /users?email_prefix=NAVY@ -> grace
    /users?email_prefix=grace ->`,
  )
  await admin.patch(`/products/${id}`, { name: 'Pot' })
  await check(t, '/products?name_prefix=kettle ->\n/products?name_prefix=pot -> kettle')
  const { client } = await person('member')
  t.same(getIds(await client.get('/products?name_prefix=pot')), [], 'what one may not read is absent')
})

t.test('each word must occur within one field, and a changed row is found by its new text', async (t) => {
  const id = await create('Green tea', 'Leaves\nfrom Uji')
  const all = ['tea uji', 'UJI green', 'leaves', 'ea ee', ' tea   green ', 'tea\u00a0green', 'tea tea']
  // All of them; members are apart, and so are lines.
  await checkTexts(t, id, 'search', all, ['tea sencha', 'teaLeaves', 'LeavesFrom'])
  const later = await create('Black tea', 'tea')
  t.same(await search('tea'), [later, id], "the order stays sort's")
  t.same(getIds(await admin.get('/products?search=tea&sort=created_at')), [id, later])
  t.equal((await admin.get('/products?search=tea&page=1')).body.pagination.total, 2)
  await admin.patch(`/products/${id}`, { name: 'After' })
  await checkTexts(t, id, 'search', ['after uji'], ['green'])
  await admin.patch(`/products/${id}`, { description: null })
  await checkTexts(t, id, 'search', ['after'], ['uji'])
})

t.test('each collection is searched in its own fields only', async (t) => {
  const { id: user } = await person('member')
  const make = async (path: string, body: object) => (await admin.post(path, body)).body.data
  const active = { name: 'x', price_amount: 1, stock: 9, status: 'active' }
  const product = await make('/products', { sku: 'SKUWORT', ...active })
  const address = { name: 'Adresswort', line1: 'a', city: 'b', postal_code: 'c', country: 'DE' }
  const items = [{ product_id: product.id, quantity: 1 }]
  const order = await make('/orders', { items, note: 'Notizwort', shipping_address: address })
  const texts = { display_name: 'Anzeigewort', bio: 'Lebenswort', location: 'Ortswort' }
  const profile = await make('/user-profiles', { user_id: user, ...texts })
  const made = await make('/users', { name: 'Namenswort', email: 'Mailwort@example.com' })
  const [post = ''] = await insertRows(database, 'posts', [
    { user_id: user, title: 'Titelwort', body: 'Rumpfwort' },
  ])
  for (const [path, hits, misses, id] of [
    ['/products', 'skuwort', 'active USD', product.id],
    ['/orders', `notizwort ${order.number.toLowerCase()}`, 'adresswort skuwort', order.id],
    ['/user-profiles', 'anzeige lebens', 'ortswort', profile.id],
    ['/users', 'namenswort MAILWORT@example', 'member', made.id],
    [`/users/${user}/posts`, 'titel RUMPF', 'draft', post],
  ] as const) {
    const find = async (word: string) => getIds(await admin.get(`${path}?search=${word}`))
    for (const word of hits.split(' ')) t.same(await find(word), [id], `${path} ${word}`)
    for (const word of misses.split(' ')) t.notOk((await find(word)).includes(id), `${path} ${word}`)
  }
})

t.test('a search and a prefix have 1 to 100 characters, and no control characters', async (t) => {
  const emoji = '%F0%9F%98%80'
  const long = 'a'.repeat(101)
  await check(
    t,
    `/products?search !! TOO_SHORT %20%20 %E3%80%80 ''
    /products?search !! TOO_LONG ${long} ${emoji.repeat(101)} a+b+c+d+e+f+g+h+i
    /products?search !! INVALID_FORMAT a%00b %00 a%0Ab a%09b %1B %C2%85x%7F
    /products?search=a&search=b !! search CONFLICTING_PARAMETERS
    /v1/products?name_prefix !! INVALID_FORMAT a%00 %00 a%0Ab %09 %C2%85x %7F
    /v2/products?name_prefix !! INVALID_FORMAT a%00 %00 a%0Ab %09 %C2%85x %7F
    /v1/products?name_prefix !! TOO_LONG ${long} ${'%20'.repeat(101)}
    /v2/products?name_prefix !! TOO_LONG ${long} ${'%20'.repeat(101)}
    /users?email_prefix !! INVALID_FORMAT e${'%CC%81'.repeat(40)}
    /products?name_prefix !! TOO_SHORT ''
    /products?name_prefix=a&name_prefix=a !! name_prefix CONFLICTING_PARAMETERS
    /products?description_prefix=a !! description_prefix UNKNOWN_PARAMETER
    /orders?number_prefix=a !! number_prefix UNKNOWN_PARAMETER`,
  )
  const hundred = ['a', emoji, 'e%CC%81', '%EF%AC%83', '%25', '%5C'].map((letter) => letter.repeat(100))
  const eight = ['a', 'a+b+c+d+e+f+g+h', 'a+a+a+a+a+a+a+a+a+a', '%EF%BF%BF']
  for (const query of [
    ...[...hundred, ...eight].map((value) => `search=${value}`),
    ...hundred.map((value) => `name_prefix=${value}`),
  ])
    t.equal((await admin.get(`/products?${query}`)).status, 200, query)
})

t.test('a word finds all of its rows, rare or common, short or long', async (t) => {
  const rows = Array.from({ length: 300 }, (_, n) => ({ name: n === 150 ? 'Quokka xy' : 'Common thing' }))
  const ids = await insertRows(database, 'products', rows)
  t.same(await search('quokka'), [ids[150]])
  t.same(await search('qu'), [ids[150]])
  const all = await collectIds(admin, '/products?search=mon&limit=70')
  t.equal(all.length, 299)
  t.equal(new Set(all).size, 299)
})

// Parsed query strings are kept by their text, of which a second question mark is a part.
t.test('searches that differ only after a question mark have different results', async (t) => {
  const ids = { one: await create('quark?one'), two: await create('quark?two') }
  for (const name of ['one', 'two', 'one'] as const)
    t.same(getIds(await admin.get(`/products?search=quark?${name}`)), [ids[name]])
})
