/** The template of `test/resources/{name}.test.ts`. */
import { withArticle } from '../../../lib/to-words.ts'
import type { ResourcePlan } from '../resource-plan.ts'
import { importUsed, literal } from './code.ts'
import { writeAccess, writeTransitions } from './test-access.ts'
import { type Context, createContext, NEW_BODY, writeBody } from './test-context.ts'
import { getInvalid } from './values.ts'

function writeCreation({ plan, word, writeCase }: Context): string {
  const defaults = plan.fields.flatMap((field) => {
    if (field.default !== undefined) return [`${field.name}: ${literal(field.default)},`]
    return field.isNullable ? [`${field.name}: null,`] : []
  })
  const owner = plan.owner ? `${plan.owner.column}: userId,` : ''
  return writeCase(
    `a new ${word} has every field, with defaults`,
    `const body = ${NEW_BODY}
    const reply = await author.post(path, body)
    t.equal(reply.status, 201)
    t.match(reply.body.data, { ${defaults.join(' ')} ${owner} ...body })
    t.same((await author.get(\`\${path}/\${reply.body.data.id}\`)).body.data, reply.body.data)`,
  )
}

function writeValidation({ plan, writeCase }: Context): string {
  const wrong = plan.fields.flatMap((field) => {
    const invalid = field.name === 'status' && plan.isStatusForStaff ? undefined : getInvalid(field)
    return invalid ? [{ name: field.name, ...invalid }] : []
  })
  if (wrong.length === 0) return ''
  const values = wrong.map(({ name, value }) => `${name}: ${value},`)
  const violations = wrong.map(({ name, code }) => `'${name} ${code}'`).sort()
  return writeCase(
    'the violations of all fields are reported together',
    `const reply = await author.post(path, { ...(${NEW_BODY}), ${values.join(' ')} })
    t.equal(reply.status, 422)
    t.same(getViolations(reply), [${violations.join(', ')}])`,
  )
}

const writeReferences = ({ sent, word, writeCase }: Context): string[] =>
  sent.map(({ column }) =>
    writeCase(
      `${withArticle(word)} with an unknown ${column} is rejected`,
      `const reply = await author.post(path, { ...(${NEW_BODY}), ${column}: UNKNOWN_ID })
    t.equal(reply.status, 422)
    t.same(getViolations(reply), ['${column} NOT_FOUND'])`,
    ),
  )

function writeUnique({ plan, words, writeCase }: Context): string {
  if (plan.unique.length === 0) return ''
  const violations = [...plan.unique].sort().map((name) => `'${name} ALREADY_EXISTS'`)
  return writeCase(
    `no two ${words} have the same ${plan.unique.join(' and ')}`,
    `const body = ${NEW_BODY}
    t.equal((await author.post(path, body)).status, 201)
    const again = await author.post(path, body)
    t.equal(again.status, 409)
    t.same(getViolations(again), [${violations.join(', ')}])`,
  )
}

function writeImmutable({ plan, writeCase }: Context): string {
  const owner = plan.owner && plan.owner !== plan.parent ? [plan.owner.column] : []
  const names = [...owner, ...plan.fields.filter(({ isImmutable }) => isImmutable).map(({ name }) => name)]
  if (names.length === 0) return ''
  const violations = [...names].sort().map((name) => `'${name} READ_ONLY'`)
  return writeCase(
    `${names.join(' and ')} cannot be changed`,
    `const { ${['id', ...names].join(', ')} } = (await author.post(path, ${NEW_BODY})).body.data
    const reply = await author.patch(\`\${path}/\${id}\`, { ${names.join(', ')} })
    t.equal(reply.status, 422)
    t.same(getViolations(reply), [${violations.join(', ')}])`,
  )
}

export function writeTest(plan: ResourcePlan): string {
  const context = createContext(plan)
  const { words } = context
  const tests = [
    writeCreation(context),
    writeValidation(context),
    ...writeReferences(context),
    writeUnique(context),
    writeImmutable(context),
    ...writeAccess(context),
    ...writeTransitions(context),
  ].filter((text) => text !== '')
  const used = [...(tests.join().includes('admin.') ? ['admin'] : []), 'database', 'person']
  const code = `
t.test('${words}', async (t) => {
  const { ${used.join(', ')} } = await testApp(t)
  const rows = createExampleRows(database)
  ${plan.parent ? '' : `const path = '/${plan.name}'`}

  ${writeBody(plan)}

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
import { ${code.includes('UNKNOWN_ID') ? 'testApp, UNKNOWN_ID' : 'testApp'} } from '../helpers/app.ts'
import { createExampleRows } from '../helpers/example-rows.ts'
${importUsed(['getIds', 'getViolations'], '../helpers/replies.ts', code)}${code}`
}

const capitalize = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)
