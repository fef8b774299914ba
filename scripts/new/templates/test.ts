/** The template of `test/resources/{name}.test.ts`. */
import { withArticle } from '../../../lib/to-words.ts'
import type { ResourcePlan } from '../resource-plan.ts'
import { importTables, importUsed, literal } from './code.ts'
import { writeAccess, writeTransitions } from './test-access.ts'
import { type Context, callBody, createContext, wrap, writeBody } from './test-context.ts'
import { getInvalid } from './values.ts'

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
  const subjects = [
    'validation',
    ...(plan.unique.length > 0 ? ['a unique key'] : []),
    'access',
    ...(plan.states ? ['status transitions'] : []),
  ]
  return `/** ${capitalize(words)}: ${subjects.join(', ')}. */
import t from 'tap'
${importTables(
  plan.references.filter(({ table }) => new RegExp(`database, ${table}\\b`).test(code)),
  (file) => `../../drizzle/${file}`,
  code,
)}import { ${code.includes('UNKNOWN_ID') ? 'testApp, UNKNOWN_ID' : 'testApp'} } from '../helpers/app.ts'
${importUsed(['getIds', 'getViolations'], '../helpers/replies.ts', code)}${importUsed(['insertRow'], '../helpers/rows.ts', code)}${code}`
}

const capitalize = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)
