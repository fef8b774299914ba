/** A definition that grants anything that the access matrix does not promise is found, with the file and line of the rule. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import t from 'tap'
import { buildDocumentApp } from '../../docs/src/commands/openapi.ts'
import {
  addCollections,
  buildAccessMatrix,
  compareMatrices,
  formatDifference,
  formatMatrix,
  locateRule,
  nameRule,
} from '../../resources/src/access-matrix/index.ts'
import { libraryResources, libraryPromises as promised } from '../library/index.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))

/** An edit of a file of the library. */
type Edit = readonly [file: string, from: string, to: string]

/** A wrong rule: edits, of which the first one begins in the line of the rule, and the rules that then differ. */
interface Plant {
  edits: readonly [Edit, ...Edit[]]
  rules: readonly string[]
  /** What the line of the rule has, if the edit is elsewhere. */
  line?: string
}

let copies = 0
const folder = mkdtempSync(join(tmpdir(), 'planted-'))
t.teardown(() => rmSync(folder, { recursive: true }))

/** Copies the library, whose imports lead to this repository, and edits it. @returns the folder of the copy */
function copyLibrary(edits: readonly Edit[]): string {
  const copy = join(folder, String(++copies))
  const library = join(copy, 'packages/testing/library')
  mkdirSync(library, { recursive: true })
  for (const path of ['node_modules', 'src', 'packages/testing/helpers', 'packages/testing/src'])
    symlinkSync(join(root, path), join(copy, path))
  cpSync(join(root, 'packages/testing/library'), library, { recursive: true })
  for (const [file, from, to] of edits) {
    const path = join(library, file)
    const text = readFileSync(path, 'utf8')
    if (!text.includes(from)) throw new Error(`${file} does not have: ${from}`)
    writeFileSync(
      path,
      text.replace(from, () => to),
    )
  }
  return library
}

async function readLibrary(library: string) {
  const { buildLibrary } = await import(pathToFileURL(join(library, 'index.ts')).href)
  const app = await buildDocumentApp(buildLibrary)
  try {
    await app.ready()
    return { matrix: buildAccessMatrix(app), resources: app.resources }
  } finally {
    await app.close()
  }
}

t.test('the library grants what it promises', async (t) => {
  t.same((await readLibrary(copyLibrary([]))).matrix, promised)
})

/** Returns the differences of an edited library. */
async function findDifferences(edits: readonly Edit[]) {
  const library = copyLibrary(edits)
  const { matrix, resources } = await readLibrary(library)
  const differences = compareMatrices(matrix, promised).filter(({ isSame }) => !isSame)
  return {
    library,
    differences,
    lines: differences.map(({ path }) => `${locateRule(path, resources, [library])}: ${nameRule(path)}`),
  }
}

const SHELF_READS = '...toReads({ ...staff, member: [{ is_public: true }, { user_id: CALLER }] }),'
const SHELF_WRITES = '...toWrites({ ...staff, member: [{ user_id: CALLER }] }),'
const LOANS = 'access: { ...toReads(own), create: own, replace: staff, update: staff },'
const REVIEWS = 'access: { ...toReads(everyone), create: own, update: own, remove: own },'
const BOOK_WRITES = "...toWrites({ ...staff, member: [{ 'shelf.user_id': CALLER }] }),"
const REPORT = "access: 'loans:list',"
const READER_FIELDS = "fields: { loans: { read: ['admin', 'manager'] } },"

const listReads = (name: string) =>
  ['list', 'list (export)', 'read'].map((operation) => `the rules of ${name}, ${operation}`)

const plants: Record<string, Plant> = {
  'members read the rows of all': {
    edits: [['shelves.ts', SHELF_READS, '...toReads({ ...staff, member: true }),']],
    rules: listReads('shelves'),
  },
  'members write the rows of all': {
    edits: [['shelves.ts', SHELF_WRITES, '...toWrites({ ...staff, member: true }),']],
    rules: ['create', 'remove', 'replace', 'update'].map((each) => `the rules of shelves, ${each}`),
  },
  'some rows are open without credentials': {
    edits: [
      [
        'shelves.ts',
        SHELF_READS,
        SHELF_READS.replace('...staff', '...staff, anonymous: [{ is_public: true }]'),
      ],
    ],
    rules: ['the rules of shelves, list', 'the rules of shelves, read'],
  },
  'all rows are open without credentials': {
    edits: [
      [
        'reviews.ts',
        REVIEWS,
        REVIEWS.replace('toReads(everyone)', 'toReads({ ...everyone, anonymous: true })'),
      ],
    ],
    rules: ['the rules of reviews, list', 'the rules of reviews, read'],
  },
  'managers list what they did not': {
    edits: [
      [
        'shelves.ts',
        SHELF_READS,
        'list: { admin: true, manager: true, member: true }, read: { ...staff, member: [{ is_public: true }, { user_id: CALLER }] },',
      ],
    ],
    rules: ['the rules of shelves, list', 'the rules of shelves, list (export)'],
  },
  'a read of one row': {
    edits: [
      ['reviews.ts', REVIEWS, REVIEWS.replace('create', 'read: { ...everyone, anonymous: true }, create')],
    ],
    rules: ['the rules of reviews, read'],
  },
  'a creation': {
    edits: [['reviews.ts', REVIEWS, REVIEWS.replace('create: own', 'create: everyone')]],
    rules: ['the rules of reviews, create'],
  },
  'a replacement': {
    edits: [['loans.ts', LOANS, LOANS.replace('replace: staff', 'replace: own')]],
    rules: ['the rules of loans, replace'],
  },
  'a change': {
    edits: [['reviews.ts', REVIEWS, REVIEWS.replace('update: own', 'update: everyone')]],
    rules: ['the rules of reviews, update'],
  },
  'a deletion': {
    edits: [['reviews.ts', REVIEWS, REVIEWS.replace('remove: own', 'remove: everyone')]],
    rules: ['the rules of reviews, remove'],
  },
  'an operation that there was not, for admins': {
    edits: [
      ['loans.ts', LOANS, LOANS.replace('replace', 'remove: { admin: true }, replace')],
      ['loans.ts', 'import { collection, create,', 'import { collection, create, remove,'],
      [
        'loans.ts',
        "app.patch('/loans/:id', update(resource))",
        "app.patch('/loans/:id', update(resource))\n  app.delete('/loans/:id', remove(resource))",
      ],
    ],
    rules: ['the rules of loans, remove'],
  },
  'a restore for managers': {
    edits: [
      ['shelves.ts', SHELF_WRITES, `restore: { manager: true },\n    ${SHELF_WRITES}`],
      ['shelves.ts', '  replace,\n', '  replace,\n  restore,\n'],
      [
        'shelves.ts',
        "app.post('/shelves', create(resource))",
        "app.post('/shelves', create(resource))\n  app.post('/shelves/:id/restores', restore(resource))",
      ],
    ],
    rules: ['the rules of shelves, restores'],
  },
  'an action': {
    edits: [
      ['loans.ts', LOANS, LOANS.replace(' },', ', actions: { reminders: { member: true } } },')],
      ['loans.ts', 'import { collection, create,', 'import { action, collection, create,'],
      [
        'loans.ts',
        "app.get('/loans', list(resource))",
        `app.get('/loans', list(resource))
  app.post(
    '/loans/:id/reminders',
    action(resource, 'reminders', { operationId: 'remind', summary: 'Remind', description: 'Reminds' }, ({ store, current }) =>
      store.update(current, {}),
    ),
  )`,
      ],
    ],
    rules: ['the rules of loans, reminders'],
  },
  'a field is read by members': {
    edits: [['readers.ts', READER_FIELDS, READER_FIELDS.replace("'manager'", "'manager', 'member'")]],
    rules: ['the rules of the field loans of readers, read'],
  },
  'a field is read without credentials': {
    edits: [['readers.ts', READER_FIELDS, READER_FIELDS.replace("'manager'", "'manager', 'anonymous'")]],
    rules: ['the rules of the field loans of readers, read'],
  },
  'a field has no rule': {
    edits: [['readers.ts', READER_FIELDS, '']],
    rules: ['the rules of the field loans of readers, read'],
    line: 'collection({',
  },
  'a field is written by members': {
    edits: [['loans.ts', "write: ['admin', 'manager']", "write: ['admin', 'manager', 'member']"]],
    rules: ['the rules of the field status of loans, write'],
  },
  'a transition': {
    edits: [['loans.ts', 'returned: []', "returned: ['lent']"]],
    rules: ['the transitions of loans, status: returned -> lent'],
  },
  'a view': {
    edits: [['readers.ts', "member: [{ user_id: CALLER }, { 'shelves.user_id': CALLER }]", 'member: true']],
    rules: listReads('readers'),
    line: 'access: toReads({',
  },
  'an export': {
    edits: [['loans.ts', ', streams: []', '']],
    rules: ['the rules of loans, list (export)'],
    line: LOANS,
  },
  'an aggregate': {
    edits: [
      [
        'books.ts',
        "lists: { sorts: ['created_at'] },",
        "lists: { sorts: ['created_at'], aggregates: { measures: ['pages'] } },",
      ],
      ['books.ts', '  collection,\n', '  aggregate,\n  collection,\n'],
      [
        'books.ts',
        "app.get('/shelves/:shelf_id/books', list(resource))",
        "app.get('/shelves/:shelf_id/books', list(resource))\n  app.get('/shelves/:shelf_id/books/aggregates', aggregate(resource))",
      ],
    ],
    rules: ['the rules of books, list (aggregates)'],
  },
  'a report is public': {
    edits: [['reports.ts', REPORT, "access: 'public',"]],
    rules: ['the route GET /reports/loans'],
  },
  'a report is for all who have signed in': {
    edits: [['reports.ts', REPORT, "access: 'authenticated',"]],
    rules: ['the route GET /reports/loans'],
  },
  'a report has the access of another collection': {
    edits: [['reports.ts', REPORT, "access: 'reviews:list',"]],
    rules: ['the route GET /reports/loans'],
  },
  'another report': {
    edits: [
      [
        'reports.ts',
        '    app.get(\n',
        `    app.post('/reports/names', operation({ access: { roles: ['member'], scope: 'loans:read' }, operationId: 'x', summary: 'x', run: async () => ({}) }))
    app.get(\n`,
      ],
    ],
    rules: ['the route POST /reports/names'],
  },
  'a rule over a relation': {
    edits: [
      ['books.ts', BOOK_WRITES, BOOK_WRITES.replace("'shelf.user_id': CALLER", "'shelf.is_public': true")],
    ],
    rules: ['create', 'remove', 'replace', 'update'].map((each) => `the rules of books, ${each}`),
  },
  'a variable with rules': {
    edits: [['loans.ts', 'const staff = { admin: true', 'const staff = { member: true, admin: true']],
    rules: ['the rules of loans, replace', 'the rules of loans, update'],
    line: LOANS,
  },
}

for (const [name, { edits, rules, line }] of Object.entries(plants))
  t.test(`found with its line: ${name}`, async (t) => {
    const { library, lines } = await findDifferences(edits)
    const [[file, , to]] = edits
    const path = join(library, file)
    const text = readFileSync(path, 'utf8')
    const before = text.slice(0, text.indexOf(line ?? to.trimStart()))
    const number = before.split('\n').length
    t.same(
      lines,
      rules.map((rule) => `${path}:${number}: ${rule}`),
    )
  })

t.test(
  'a promise that nothing grants is a difference too, and roles are compared by their rows',
  async (t) => {
    const closed = SHELF_READS.replace('{ is_public: true }, ', '')
    const { differences } = await findDifferences([['shelves.ts', SHELF_READS, closed]])
    t.equal(differences.length, 3)
    t.same(differences[0] && formatDifference(differences[0]), [
      '- "member": "is_public true or own"',
      '+ "member": "own"',
    ])
    t.same(
      compareMatrices({}, { papers: { list: { member: 'all' } } }).map(({ isSame }) => isSame),
      [false],
    )
  },
)

t.test('a field that no role may read has a promise, which needs its rule', async (t) => {
  const edit = (to: string) => readLibrary(copyLibrary([['readers.ts', READER_FIELDS, to]]))
  const closed = await edit('fields: { loans: { read: [] } },')
  const open = await edit('')
  const differences = compareMatrices(open.matrix, closed.matrix).filter(({ isSame }) => !isSame)
  t.same(
    differences.map(({ path }) => nameRule(path)),
    ['the rules of the field loans of readers, read'],
  )
  t.same(differences.flatMap(formatDifference), ['+ "every role": "all"'])
})

t.test('an operation that no role may call needs no promise', async (t) => {
  t.same(
    compareMatrices({ papers: { list: {} } }, {}).filter(({ isSame }) => !isSame),
    [],
  )
})

t.test('a new collection is added in its place, and in that of an old one with its name', async (t) => {
  const [shelves] = libraryResources.filter(({ collection }) => collection.name === 'shelves')
  if (!shelves) throw new Error('The library has shelves')
  const { collection } = shelves
  const moves = {
    shelves: { status: { 'open -> closed': { member: 'all' } } },
    zoos: { a: { member: 'all' } },
  }
  const matrix = { moves, shelves: { shown: { anonymous: 'all' } }, zoos: { list: { admin: 'all' } } }
  const added = addCollections(matrix, [collection])
  t.same(Object.keys(added), ['moves', 'shelves', 'zoos'])
  t.same(added.shelves, promised.shelves)
  // The slash distinguishes a collection from a part of the matrix with its name.
  t.ok('/moves' in addCollections({}, [{ ...collection, name: 'moves' }]))
})

t.test('the file has a line for each rule that fits into one', async (t) => {
  const long = 'own by organization.memberships.user_id or own by tenant_id or status published'
  t.equal(
    formatMatrix({ leases: { list: { admin: 'all', member: 'own' }, read: { admin: 'all', member: long } } }),
    `{
  "leases": {
    "list": { "admin": "all", "member": "own" },
    "read": {
      "admin": "all",
      "member": "${long}"
    }
  }
}
`,
  )
})
