/** The template of `test/resources/{name}.test.ts`. */
import type { Field } from '../fields.ts'
import { toWords, withArticle } from '../names.ts'
import type { Reference, ResourcePlan } from '../plan.ts'
import { findWay } from '../states.ts'
import { importUsed, literal } from './code.ts'
import { getExample, getInvalid, getOther } from './values.ts'

interface Context {
  plan: ResourcePlan
  /** `review` */
  word: string
  /** `reviews` */
  words: string
  /** The references that a body has: not those in the path, nor the owner. */
  sent: readonly Reference[]
  /** The statements that begin each test: the clients, and the path of the collection. */
  begin(names?: readonly ('other' | 'userId' | 'no author')[]): string
}

/** Returns a value as code. In a unique key it is another one for each row. */
function writeValue({ plan }: Context, field: Field): string {
  const example = literal(getExample(field) ?? '')
  if (!plan.unique.includes(field.name)) return example
  switch (field.type) {
    case 'text':
    case 'multiline':
      return `String(++made).padStart(${field.min}, '0')`
    case 'integer':
    case 'money':
      return `${field.min} + ++made`
    case 'date':
      return 'new Date(Date.UTC(2026, 0, ++made)).toISOString().slice(0, 10)'
    case 'timestamp':
      return 'new Date(Date.UTC(2026, 0, ++made)).toISOString()'
    case 'url':
      // biome-ignore lint/suspicious/noTemplateCurlyInString: this is code of the test
      return '`https://example.com/${++made}`'
    default:
      return example
  }
}

/** The function that returns a valid body with the required fields. */
function writeBody(context: Context): string {
  const { plan, sent, word } = context
  const fields = plan.fields.filter((field) => field.default === undefined && !field.isNullable)
  const values = fields.map((field) => {
    const reference = sent.find(({ column }) => column === field.name)
    return `${field.name}: ${reference ? `await insertRow(database, ${reference.table})` : writeValue(context, field)},`
  })
  const isAsync = values.some((value) => value.includes('await '))
  return `/** Returns the body of a new ${word}. */
  const newBody = ${isAsync ? 'async ' : ''}() => (${isAsync ? '' : ''}{ ${values.join('\n')} })`
}

const callBody = (context: Context) =>
  writeBody(context).includes('async ()') ? 'await newBody()' : 'newBody()'

function writeCreation(context: Context): string {
  const { plan, word, begin } = context
  const defaults = plan.fields.flatMap((field) => {
    if (field.default !== undefined) return [`${field.name}: ${literal(field.default)},`]
    return field.isNullable ? [`${field.name}: null,`] : []
  })
  const owner = plan.owner ? `${plan.owner.column}: userId,` : ''
  return `t.test('a new ${word} has every field, with defaults', async (t) => {
    ${begin(plan.owner ? ['userId'] : [])}
    const body = ${callBody(context)}
    const reply = await author.post(path, body)
    t.equal(reply.status, 201)
    t.match(reply.body.data, { ...body, ${owner} ${defaults.join(' ')} })
    t.same((await author.get(\`\${path}/\${reply.body.data.id}\`)).body.data, reply.body.data)
  })`
}

function writeValidation(context: Context): string {
  const { plan, begin } = context
  const wrong = plan.fields.flatMap((field) => {
    const invalid = field.name === 'status' && plan.isStatusForStaff ? undefined : getInvalid(field)
    return invalid ? [{ name: field.name, ...invalid }] : []
  })
  if (wrong.length === 0) return ''
  const values = wrong.map(({ name, value }) => `${name}: ${value},`)
  const violations = wrong.map(({ name, code }) => `'${name} ${code}'`).sort()
  return `t.test('the violations of all fields are reported together', async (t) => {
    ${begin()}
    const reply = await author.post(path, { ...${wrap(callBody(context))}, ${values.join(' ')} })
    t.equal(reply.status, 422)
    t.same(getViolations(reply), [${violations.join(', ')}])
  })`
}

const wrap = (code: string) => (code.startsWith('await') ? `(${code})` : code)

function writeReferences(context: Context): string {
  const { sent, word, begin } = context
  return sent
    .map(
      ({ column }) => `t.test('${withArticle(word)} with an unknown ${column} is rejected', async (t) => {
    ${begin()}
    const reply = await author.post(path, { ...${wrap(callBody(context))}, ${column}: UNKNOWN_ID })
    t.equal(reply.status, 422)
    t.same(getViolations(reply), ['${column} NOT_FOUND'])
  })`,
    )
    .join('\n\n')
}

function writeUnique(context: Context): string {
  const { plan, words, begin } = context
  if (plan.unique.length === 0) return ''
  const violations = [...plan.unique].sort().map((name) => `'${name} ALREADY_EXISTS'`)
  return `t.test('no two ${words} have the same ${plan.unique.join(' and ')}', async (t) => {
    ${begin()}
    const body = ${callBody(context)}
    t.equal((await author.post(path, body)).status, 201)
    const again = await author.post(path, body)
    t.equal(again.status, 409)
    t.same(getViolations(again), [${violations.join(', ')}])
  })`
}

function writeImmutable(context: Context): string {
  const { plan, begin } = context
  const owner = plan.owner && plan.owner !== plan.parent ? [plan.owner.column] : []
  const names = [...owner, ...plan.fields.filter(({ isImmutable }) => isImmutable).map(({ name }) => name)]
  if (names.length === 0) return ''
  const violations = [...names].sort().map((name) => `'${name} READ_ONLY'`)
  return `t.test('${names.join(' and ')} cannot be changed', async (t) => {
    ${begin()}
    const { ${['id', ...names].join(', ')} } = (await author.post(path, ${callBody(context)})).body.data
    const reply = await author.patch(\`\${path}/\${id}\`, { ${names.join(', ')} })
    t.equal(reply.status, 422)
    t.same(getViolations(reply), [${violations.join(', ')}])
  })`
}

/** The change that tests of access send: the first field that can be changed. */
function writeChange({ plan }: Context): string {
  const field = plan.fields.find(
    ({ isImmutable, type, name }) =>
      !isImmutable && type !== 'ref' && !(name === 'status' && plan.states) && !plan.unique.includes(name),
  )
  return field ? `{ ${field.name}: ${literal(getOther(field) ?? '')} }` : '{}'
}

function writeAccess(context: Context): string {
  const { plan, words, begin } = context
  const { owner, states, public: visible } = plan
  const isVisible = (state: string) => visible === 'all' || visible.includes(state)
  const [initial = ''] = states?.keys() ?? []
  const way = states && visible !== 'all' ? findWay(states, isVisible) : []
  const read = (status: number) => `t.equal((await other.get(\`\${path}/\${id}\`)).status, ${status})`
  const isVisibleAtFirst = isVisible(initial)
  const become = (way ?? []).map(
    (state) => `t.equal((await admin.patch(\`\${path}/\${id}\`, { status: '${state}' })).status, 200)`,
  )
  const seen =
    visible === 'all'
      ? `all ${words}`
      : visible.length > 0
        ? `${visible.join(' and ')} ${words}`
        : `no ${words}`
  const own = owner
    ? visible.length > 0 && visible !== 'all'
      ? ' and their own'
      : visible === 'all'
        ? ''
        : ' but their own'
    : ''
  const change = writeChange(context)
  return `t.test('members read ${seen}${own}', async (t) => {
    ${begin(['other'])}
    const { id } = (await author.post(path, ${callBody(context)})).body.data
    ${owner ? `t.equal((await author.get(\`\${path}/\${id}\`)).status, 200)` : ''}
    ${read(isVisibleAtFirst ? 200 : 403)}
    ${owner || visible.length > 0 ? `t.${isVisibleAtFirst ? 'ok' : 'notOk'}(getIds(await other.get(\`\${path}?limit=100\`)).includes(id))` : 't.equal((await other.get(path)).status, 403)'}
    ${!isVisibleAtFirst && become.length > 0 ? [...become, read(200)].join('\n    ') : ''}
  })

  t.test('members ${owner ? `change and delete only their own ${words}` : `change no ${words}`}', async (t) => {
    ${begin(['other'])}
    const { id } = (await author.post(path, ${callBody(context)})).body.data
    t.equal((await other.patch(\`\${path}/\${id}\`, ${change})).status, 403)
    t.equal((await other.delete(\`\${path}/\${id}\`)).status, 403)
    t.match((await author.patch(\`\${path}/\${id}\`, ${change})).body.data, ${change})
    t.equal((await author.delete(\`\${path}/\${id}\`)).status, 204)
  })${writeOwner(context)}`
}

function writeOwner(context: Context): string {
  const { plan, words, begin } = context
  if (!plan.owner) return ''
  const foreign =
    plan.owner === plan.parent
      ? `await other.post(path, ${callBody(context)})`
      : `await other.post(path, { ...${wrap(callBody(context))}, ${plan.owner.column}: userId })`
  return `

  t.test('members create ${words} only for themselves', async (t) => {
    ${begin(['userId', 'no author', 'other'])}
    t.equal((${foreign}).status, 403)
  })`
}

/** Returns a state that can be reached, with the way to it, and a state that may not follow it. */
function findForbidden({ states }: ResourcePlan) {
  for (const [from, following] of states ?? []) {
    const way = states && findWay(states, (state) => state === from)
    const to = [...(states?.keys() ?? [])].find((state) => state !== from && !following.includes(state))
    if (way && to !== undefined) return { from, to, way }
  }
  return undefined
}

function writeTransitions(context: Context): string {
  const { plan, word, begin } = context
  const tests: string[] = []
  const forbidden = findForbidden(plan)
  if (forbidden) {
    const { from, to, way } = forbidden
    tests.push(`t.test('${withArticle(word)} cannot change from ${from} to ${to}', async (t) => {
    ${begin()}
    const { id } = (await author.post(path, ${callBody(context)})).body.data
    ${way.map((state) => `t.equal((await admin.patch(\`\${path}/\${id}\`, { status: '${state}' })).status, 200)`).join('\n    ')}
    const reply = await admin.patch(\`\${path}/\${id}\`, { status: '${to}' })
    t.equal(reply.status, 409)
    t.same(getViolations(reply), ['status INVALID_TRANSITION'])
  })`)
  }
  const second = [...(plan.states?.keys() ?? [])][1]
  if (plan.isStatusForStaff) {
    tests.push(`t.test('members cannot set the status', async (t) => {
    ${begin()}
    const created = await author.post(path, { ...${wrap(callBody(context))}, status: '${second}' })
    t.equal(created.status, 422)
    t.same(getViolations(created), ['status READ_ONLY'])
    const { id } = (await author.post(path, ${callBody(context)})).body.data
    t.equal((await author.patch(\`\${path}/\${id}\`, { status: '${second}' })).status, 403)
  })`)
  }
  return tests.join('\n\n')
}

function createContext(plan: ResourcePlan): Context {
  const { name, owner, parent } = plan
  const path =
    parent === undefined
      ? undefined
      : parent === owner
        ? `\`/users/\${userId}/${name}\``
        : `\`/${parent.to.name}/\${await insertRow(database, ${parent.table})}/${name}\``
  return {
    plan,
    word: toWords(plan.singular),
    words: toWords(name),
    sent: plan.references.filter((each) => each !== owner && each !== parent),
    begin(names = []) {
      const hasId = names.includes('userId') || (parent !== undefined && parent === owner)
      const author = [
        ...(hasId ? ['id: userId'] : []),
        ...(names.includes('no author') ? [] : ['client: author']),
      ]
      return [
        owner ? `const { ${author.join(', ')} } = await person('member')` : '',
        names.includes('other') ? `const { client: other } = await person('member')` : '',
        path ? `const path = ${path}` : '',
      ]
        .filter((line) => line !== '')
        .join('\n    ')
    },
  }
}

export function writeTest(plan: ResourcePlan): string {
  const context = createContext(plan)
  const { words } = context
  const body = writeBody(context)
  const tests = [
    writeCreation(context),
    writeValidation(context),
    writeReferences(context),
    writeUnique(context),
    writeImmutable(context),
    writeAccess(context),
    writeTransitions(context),
  ].filter((text) => text !== '')
  const all = [body, ...tests].join()
  const used = [
    ...(plan.owner && !all.includes('admin.') ? [] : ['admin']),
    ...(all.includes('database,') ? ['database'] : []),
    ...(all.includes('person(') ? ['person'] : []),
  ]
  const usesMade = body.includes('++made')
  const code = `
t.test('${words}', async (t) => {
  const { ${used.join(', ')} } = await testApp(t)
  ${plan.owner ? '' : 'const author = admin'}
  ${plan.parent ? '' : `const path = '/${plan.name}'`}
  ${usesMade ? 'let made = 0' : ''}

  ${body}

  ${tests.join('\n\n  ')}
})
`
  const tables = [...new Set(plan.references.map(({ table }) => table))]
  const subjects = [
    'validation',
    ...(plan.unique.length > 0 ? ['a unique key'] : []),
    'access',
    ...(plan.states ? ['status transitions'] : []),
  ]
  return `/** ${capitalize(words)}: ${subjects.join(', ')}. */
import t from 'tap'
${importUsed(
  tables.filter((table) => code.includes(`database, ${table})`)),
  '../../drizzle/tables.ts',
  code,
)}import { ${code.includes('UNKNOWN_ID') ? 'testApp, UNKNOWN_ID' : 'testApp'} } from '../helpers/app.ts'
${importUsed(['insertRow'], '../helpers/insert-row.ts', code)}${importUsed(['getIds', 'getViolations'], '../helpers/lists.ts', code)}${code}`
}

const capitalize = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)
