/** The template of `test/{name}.test.ts`. */
import { roles } from '../../../packages/database/src/roles.ts'
import { withArticle } from '../../../packages/http/src/lib/to-words.ts'
import type { ResourcePlan } from '../resource-plan.ts'
import { readsField, writesField } from '../restrictions.ts'
import { importUsed, literal } from './code.ts'
import { writeAccess, writeTransitions } from './test-access.ts'
import { type Context, createContext, getAuthorRole, NEW_BODY, writeBody } from './test-context.ts'
import { getExample, getInvalid } from './values.ts'

function writeCreation({ plan, word, writeCase }: Context): string {
  const role = getAuthorRole(plan)
  const defaults = plan.fields.flatMap((field) => {
    if (!readsField(plan, field.name, role)) return []
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
    const isLocked =
      (field.name === 'status' && plan.isStatusForStaff) ||
      !writesField(plan, field.name, getAuthorRole(plan))
    const invalid = isLocked ? undefined : getInvalid(field)
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
  const immutable = plan.fields.filter(({ isImmutable }) => isImmutable).map(({ name }) => name)
  const names = [...owner, ...immutable.filter((name) => readsField(plan, name, getAuthorRole(plan)))]
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

/** Writes that each restricted field is unknown to some roles, and read-only to others. */
const writeRestrictions = ({ plan, writeCase }: Context): string[] =>
  plan.restrictions.flatMap(({ field: name }) => {
    const field = plan.fields.find((each) => each.name === name)
    if (!field) return []
    const isForMembers = plan.owner !== undefined || plan.visible.length > 0 || plan.ownerPaths.length > 0
    const callers = roles.filter(
      (role) => role === 'admin' || role === 'manager' || (role === 'member' && isForMembers),
    )
    const blind = callers.filter((role) => !readsField(plan, name, role))
    const creators = callers.filter((role) => role !== 'member' || (plan.owner && plan.isOwnerWriting))
    const refused = creators.filter((role) => !writesField(plan, name, role))
    const value = field.type === 'ref' ? 'UNKNOWN_ID' : literal(getExample(field) ?? null)
    const cases = [
      blind.length > 0
        ? writeCase(
            `${name} does not exist for ${blind.join(' and ')}`,
            `await author.post(path, ${NEW_BODY})
    for (const role of [${blind.map((role) => `'${role}'`).join(', ')}] as const) {
      const { client } = await person(role)
      t.equal((await client.get(\`\${path}?fields=${name}\`)).status, 400)
      t.notMatch((await client.get(path)).text, '"${name}"')
    }`,
          )
        : '',
      refused.length > 0
        ? writeCase(
            `${name} is read-only for ${refused.join(' and ')}`,
            `for (const role of [${refused.map((role) => `'${role}'`).join(', ')}] as const) {
      const { client, id } = await person(role)
      const reply = await client.post(${plan.parent && plan.parent === plan.owner ? `\`/users/\${id}/${plan.name}\`` : 'path'}, { ...(await newBody(id)), ${name}: ${value} })
      t.equal(reply.status, 422)
      t.same(getViolations(reply), ['${name} READ_ONLY'])
    }`,
          )
        : '',
    ]
    return cases.filter((each) => each !== '')
  })

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
    ...writeRestrictions(context),
    ...writeTransitions(context),
  ].filter((text) => text !== '')
  const used = [
    ...(tests.join().includes('admin.') ? ['admin'] : []),
    ...(tests.join().includes('database') ? ['database'] : []),
    'person',
  ]
  const code = `
t.test('${words}', async (t) => {
  const api = await testApp(t, buildApp)
  const { ${used.join(', ')} } = api
  const rows = createExampleRows(api, await loadExamples('test'))
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
${importUsed(['createExampleRows', 'getIds', 'getViolations', 'loadExamples', 'testApp', 'UNKNOWN_ID'], '@resource-api/testing', code)}import { buildApp } from '../src/app.ts'
${code}`
}

const capitalize = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)
