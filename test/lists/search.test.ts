/** search finds the rows that contain every word, ignoring case, in the searchable fields of the resource. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { foldCase } from '../../plugins/collection/sql/case-folding.ts'
import { testApp } from '../helpers/app.ts'
import { checkRefusals, collectIds, getIds } from '../helpers/replies.ts'
import { insertRows } from '../helpers/rows.ts'
import { checkValues } from './refusals.ts'

const { admin, database, person } = await testApp(t)

let count = 0

const create = async (name: string, description: string | null = null) => {
  count += 1
  const sku = `S-${count}`
  const reply = await admin.post('/products', { sku, name, description, price_amount: 1 })
  if (reply.status !== 201) throw new Error(reply.text)
  return String(reply.body.data.id)
}
const search = async (words: string) => {
  const reply = await admin.get(`/products?limit=100&search=${encodeURIComponent(words)}`)
  if (reply.status !== 200) throw new Error(reply.text)
  return getIds(reply)
}

t.test("case folding is Unicode's full case folding, for every character", async (t) => {
  const text = readFileSync(new URL('../helpers/case-folding.txt', import.meta.url), 'utf8')
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

t.test('case is ignored in the search and in the row', async (t) => {
  const kinds: [string, string[], string[]][] = [
    ['Straße', ['straße', 'STRASSE', 'strasse', 'STRAẞE', 'ras', 'sse'], ['strase', 'strabe']],
    ['ΟΔΥΣΣΕΥΣ', ['οδυσσευς', 'Οδυσσευσ', 'σευς', 'ΣΕΥΣ'], ['οδυσευς']],
    ['Élodie', ['élodie', 'ÉLODIE', 'e\u0301lodie', 'E\u0301LODIE'], ['elodie']],
    ['Zoe\u0308', ['zoë', 'ZOË', 'ZOE\u0308'], ['zoe\u0301']],
    ['Kadın', ['kadın', 'KADın'], ['kadin']],
    ['ISTANBUL', ['istanbul', 'Istanbul'], ['ıstanbul']],
    ['Ǆungla', ['ǆungla', 'ǅungla', 'ǄUNGLA'], []],
    ['ﬁnance', ['FINANCE', 'finance', 'ﬁnance'], []],
    ['Ω Ohm', ['ω', 'Ω', 'ohm'], []],
    ['𐐀deseret', ['𐐨DESERET'], []],
    ['日本語テスト', ['日本語', 'テスト'], ['てすと']],
  ]
  for (const [name, found, missed] of kinds) {
    const id = await create(name)
    for (const words of found) t.ok((await search(words)).includes(id), `${words} finds ${name}`)
    for (const words of missed) t.notOk((await search(words)).includes(id), `${words} does not find ${name}`)
  }
})

t.test('%, _ and \\ are literal characters', async (t) => {
  const percent = await create('100% cotton')
  const underscore = await create('snake_case')
  const backslash = await create('C:\\temp')
  const found: Record<string, string[]> = {
    '100%': [percent],
    '%': [percent],
    e_c: [underscore],
    _: [underscore],
    'c:\\t': [backslash],
    '\\': [backslash],
    '1%cotton': [],
    'snake%': [],
    '\\%': [],
    "' or 1=1 --": [],
  }
  for (const [words, ids] of Object.entries(found)) t.same(await search(words), ids, words)
})

t.test('each word must occur within one field', async (t) => {
  const id = await create('Green tea', 'Leaves\nfrom Uji')
  const all = ['tea uji', 'UJI green', 'leaves', 'ea ee', ' tea   green ', 'tea\u00a0green', 'tea tea']
  for (const words of all) {
    t.same(await search(words), [id], words)
  }
  t.same(await search('tea sencha'), [], 'all of them')
  t.same(await search('teaLeaves'), [], 'members are apart')
  t.same(await search('LeavesFrom'), [], 'and so are lines')
  const later = await create('Black tea', 'tea')
  t.same(await search('tea'), [later, id], "the order stays sort's")
  t.same(getIds(await admin.get('/products?search=tea&sort=created_at')), [id, later])
  t.equal((await admin.get('/products?search=tea&page=1')).body.pagination.total, 2)
})

t.test('a changed row is found by its new text only', async (t) => {
  const id = await create('Before', 'kept')
  await admin.patch(`/products/${id}`, { name: 'After' })
  t.same(await search('before'), [])
  t.same(await search('after kept'), [id])
  await admin.patch(`/products/${id}`, { description: null })
  t.same(await search('after kept'), [])
})

t.test('each collection is searched in its own fields only', async (t) => {
  const { id: user } = await person('member')
  const create = async (path: string, body: object) => (await admin.post(path, body)).body.data
  const active = { name: 'x', price_amount: 1, stock: 9, status: 'active' }
  const product = await create('/products', { sku: 'SKUWORT', ...active })
  const address = { name: 'Adresswort', line1: 'a', city: 'b', postal_code: 'c', country: 'DE' }
  const items = [{ product_id: product.id, quantity: 1 }]
  const order = await create('/orders', { items, note: 'Notizwort', shipping_address: address })
  const texts = { display_name: 'Anzeigewort', bio: 'Lebenswort', location: 'Ortswort' }
  const profile = await create('/user-profiles', { user_id: user, ...texts })
  const made = await create('/users', { name: 'Namenswort', email: 'Mailwort@example.com' })
  const found: [string, string[], string[], string][] = [
    ['/products', ['skuwort'], ['active', 'USD'], product.id],
    ['/orders', ['notizwort', order.number.toLowerCase()], ['adresswort', 'skuwort'], order.id],
    ['/user-profiles', ['anzeige', 'lebens'], ['ortswort'], profile.id],
    ['/users', ['namenswort', 'MAILWORT@example'], ['member'], made.id],
  ]
  for (const [path, hits, misses, id] of found) {
    for (const word of hits)
      t.same(getIds(await admin.get(`${path}?search=${word}`)), [id], `${path} ${word}`)
    for (const word of misses)
      t.notOk(getIds(await admin.get(`${path}?search=${word}`)).includes(id), `${path} ${word}`)
  }
})

t.test('a search has 1 to 100 characters, at most 8 words, and no control characters', async (t) => {
  const emoji = '%F0%9F%98%80'
  await checkValues(t, admin, '/products?search', 'TOO_SHORT', '%20%20 %E3%80%80')
  const long = `${'a'.repeat(101)} ${emoji.repeat(101)} a+b+c+d+e+f+g+h+i`
  await checkValues(t, admin, '/products?search', 'TOO_LONG', long)
  const controls = 'a%00b %00 a%0Ab a%09b %1B %C2%85x%7F'
  await checkValues(t, admin, '/products?search', 'INVALID_FORMAT', controls)
  await checkRefusals(t, admin, {
    '/products?search=': ['search TOO_SHORT'],
    '/products?search=a&search=b': ['search CONFLICTING_PARAMETERS'],
  })
  const longest = ['a', emoji, 'e%CC%81', '%EF%AC%83'].map((letter) => letter.repeat(100))
  for (const value of ['a', ...longest, 'a+b+c+d+e+f+g+h', 'a+a+a+a+a+a+a+a+a+a', '%EF%BF%BF']) {
    t.equal((await admin.get(`/products?search=${value}`)).status, 200, value.slice(0, 30))
  }
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
  const first = await create('quark?one')
  const second = await create('quark?two')
  const find = async (query: string) => getIds(await admin.get(`/products?${query}`))
  t.same(await find('search=quark?one'), [first])
  t.same(await find('search=quark?two'), [second])
  t.same(await find('search=quark?one'), [first])
})
