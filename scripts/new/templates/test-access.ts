/** The templates of the tests of access rules and status transitions. */
import { withArticle } from '../../../packages/http/src/lib/to-words.ts'
import type { Field } from '../fields.ts'
import { toSnake } from '../names.ts'
import type { FieldCondition, ResourcePlan } from '../resource-plan.ts'
import { findWay } from '../states.ts'
import { literal } from './code.ts'
import { type Context, getAuthorRole, NEW_BODY } from './test-context.ts'
import { getExample, getOther, getSecondState } from './values.ts'

/** Types that have another valid value whatever the other fields are: an end, for example, has to be after its start. */
const CHANGED_TYPES = ['text', 'multiline', 'boolean', 'email', 'url', 'texts', 'enum', 'integer', 'decimal']

/** The change that tests of access send: to the field that depends least on others. */
function writeChange({ plan }: Context): string {
  const getRank = ({ type }: Field) => (CHANGED_TYPES.indexOf(type) + 100) % 100
  const [field] = plan.fields
    .filter(
      ({ isImmutable, type, name }) =>
        !isImmutable &&
        type !== 'ref' &&
        !(name === 'status' && plan.states) &&
        !plan.unique.includes(name) &&
        // Roles that may not write it would get 422.
        plan.restrictions.every((each) => each.field !== name),
    )
    .sort((a, b) => getRank(a) - getRank(b))
  return field ? `{ ${field.name}: ${literal(getOther(field) ?? '')} }` : '{}'
}

/** Describes the rows that members read. */
function describeReadable({ plan: { owner, ownConditions, ownerPaths, visible }, words }: Context): string {
  if (visible === 'all') return `all ${words}`
  const list = (listed: readonly FieldCondition[]) =>
    listed.map(({ field, value }) => (field === 'status' ? String(value) : `${field} ${String(value)}`))
  const conditions = list(visible)
  if (ownConditions.length > 0) {
    const own = `their own ${list(ownConditions).join(' and ')} ${words}`
    return conditions.length > 0 ? `${conditions.join(' and ')} ${words} and ${own}` : own
  }
  const others = conditions.length > 0 ? `${conditions.join(' and ')} ${words}` : `no ${words}`
  if (!owner) return ownerPaths.length > 0 && conditions.length === 0 ? `no ${words} of others` : others
  return conditions.length > 0 ? `${others} and their own` : `${others} but their own`
}

/** Returns whether members may read a new row of others, with the values of the examples. */
function isVisibleAtFirst({ fields, visible }: ResourcePlan): boolean {
  return visible === 'all' || meetsAtFirst(fields, visible)
}

/** Returns whether a new row meets one of the conditions. */
function meetsAtFirst(fields: readonly Field[], conditions: readonly FieldCondition[]): boolean {
  return conditions.some(({ field: name, value }) =>
    fields.some((field) => field.name === name && !field.isNullable && getExample(field) === value),
  )
}

const hasState = (conditions: readonly FieldCondition[], state: string | undefined) =>
  conditions.some(({ field, value }) => field === 'status' && value === state)

/** Returns the states on the shortest way to one that meets a condition. */
const findReadableWay = ({ states }: ResourcePlan, conditions: readonly FieldCondition[]) =>
  (states && findWay(states, (state) => hasState(conditions, state))) ?? []

function writeReads(context: Context): string {
  const { plan, writeCase } = context
  const isVisible = isVisibleAtFirst(plan)
  const read = (isReadable: boolean, client = 'other') =>
    `t.equal((await ${client}.get(\`\${path}/\${id}\`)).status, ${isReadable ? 200 : 403})`
  const { fields, owner, ownConditions } = plan
  const visible = plan.visible === 'all' ? [] : plan.visible
  const isLimited = ownConditions.length > 0
  const isOwnVisible = isVisible || !isLimited || meetsAtFirst(fields, ownConditions)
  const way =
    isVisible || (isLimited && isOwnVisible) ? [] : findReadableWay(plan, isLimited ? ownConditions : visible)
  const changes = way.map(
    (state) => `t.equal((await admin.patch(\`\${path}/\${id}\`, { status: '${state}' })).status, 200)`,
  )
  const list = `getIds(await other.get(\`\${path}?limit=100\`)).includes(id)`
  const hasList = plan.owner !== undefined || plan.visible.length > 0 || plan.ownerPaths.length > 0
  return writeCase(
    `members read ${describeReadable(context)}`,
    `const { id } = (await author.post(path, ${NEW_BODY})).body.data
    ${owner ? read(isOwnVisible, 'owner') : ''}
    ${read(isVisible)}
    ${hasList ? `t.${isVisible ? 'ok' : 'notOk'}(${list})` : 't.equal((await other.get(path)).status, 403)'}
    ${way.length > 0 ? [...changes, ...(isLimited ? [read(true, 'owner')] : []), read(hasState(visible, way.at(-1)))].join('\n    ') : ''}`,
  )
}

function writeWrites(context: Context): string {
  const { plan, words, writeCase } = context
  const change = writeChange(context)
  const isWriting = plan.owner !== undefined && plan.isOwnerWriting
  const refused = plan.owner && !isWriting ? ['other', 'owner'] : ['other']
  return writeCase(
    `members ${isWriting ? `change and delete only their own ${words}` : `change no ${words}`}`,
    `const { id } = (await author.post(path, ${NEW_BODY})).body.data
    ${refused
      .map(
        (client) => `t.equal((await ${client}.patch(\`\${path}/\${id}\`, ${change})).status, 403)
    t.equal((await ${client}.delete(\`\${path}/\${id}\`)).status, 403)`,
      )
      .join('\n    ')}
    t.match((await author.patch(\`\${path}/\${id}\`, ${change})).body.data, ${change})
    t.equal((await author.delete(\`\${path}/\${id}\`)).status, 204)`,
  )
}

export function writeAccess(context: Context): string[] {
  const { plan, words, writeCase } = context
  const { owner, isOwnerWriting } = plan
  const paths = writePaths(context)
  if (!owner) return [writeReads(context), writeWrites(context), ...paths]
  const creation = isOwnerWriting
    ? writeCase(
        `members create ${words} only for themselves`,
        `t.equal((await other.post(path, ${NEW_BODY})).status, 403)`,
      )
    : writeCase(`members create no ${words}`, `t.equal((await owner.post(path, ${NEW_BODY})).status, 403)`)
  return [writeReads(context), writeWrites(context), creation, ...paths, writeDeletion(context)]
}

/** Writes what a row from which a path leads to the caller permits: paths over two relations, of which one is to many rows. */
function writePaths(context: Context): string[] {
  const { plan, words, writeCase } = context
  return plan.ownerPaths.flatMap(({ path, isWriting, conditions: [condition], target }) => {
    const [first = '', second = '', column = '', another] = path.split('.')
    const reference = plan.references.find((each) => each.column === `${first}_id`)
    if (!reference || another !== undefined || second !== toSnake(target)) return []
    const values = [
      `${toSnake(reference.to.singular)}_id: data.${reference.column}`,
      `${column}: id`,
      ...(condition ? [`${condition.field}: ${literal(condition.value)}`] : []),
    ]
    const change = writeChange(context)
    const write = `t.equal((await client.patch(address, ${change})).status, 200)`
    return [
      writeCase(
        `members ${isWriting ? 'change' : 'read'} ${words} by ${path}${condition ? ` with ${condition.field} ${condition.value}` : ''}`,
        `const { data } = (await author.post(path, ${NEW_BODY})).body
    const { client, id } = await person('member')
    const address = \`\${path}/\${data.id}\`
    t.equal((await client.${isWriting ? `patch(address, ${change})` : 'get(address)'}).status, 403)
    await rows.insertRow('${target}', id, { ${values.join(', ')} })
    ${isWriting ? write : 't.equal((await client.get(address)).status, 200)'}`,
      ),
    ]
  })
}

/** Writes what happens when the owner is deleted. */
function writeDeletion({ plan: { owner, parent }, words, writeCase }: Context): string {
  const row = `const { id } = (await author.post(path, ${NEW_BODY})).body.data`
  const remove = `await admin.delete(\`/users/\${userId}\`)`
  if (!owner?.cascades) {
    return writeCase(
      `a user who has ${words} cannot be deleted`,
      `${row}
    t.equal((${remove}).status, 409)
    t.equal((await admin.get(\`\${path}/\${id}\`)).status, 200)`,
    )
  }
  const left = owner === parent ? '' : `t.equal((await admin.get(\`\${path}/\${id}\`)).status, 404)`
  return writeCase(
    `${words} are deleted with their user`,
    `${left ? row : `t.equal((await author.post(path, ${NEW_BODY})).status, 201)`}
    t.equal((${remove}).status, 204)
    ${left}`,
  )
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

export function writeTransitions({ plan, word, writeCase }: Context): string[] {
  const tests: string[] = []
  const forbidden = findForbidden(plan)
  if (forbidden) {
    const { from, to, way } = forbidden
    tests.push(
      writeCase(
        `${withArticle(word)} cannot change from ${from} to ${to}`,
        `const { id } = (await author.post(path, ${NEW_BODY})).body.data
    ${way.map((state) => `t.equal((await admin.patch(\`\${path}/\${id}\`, { status: '${state}' })).status, 200)`).join('\n    ')}
    const reply = await admin.patch(\`\${path}/\${id}\`, { status: '${to}' })
    t.equal(reply.status, 409)
    t.same(getViolations(reply), ['status INVALID_TRANSITION'])`,
      ),
    )
  }
  const second = getSecondState(plan)
  if (plan.isStatusForStaff && second !== undefined && getAuthorRole(plan) === 'member') {
    tests.push(
      writeCase(
        'members cannot set the status',
        `const created = await author.post(path, { ...(${NEW_BODY}), status: '${second}' })
    t.equal(created.status, 422)
    t.same(getViolations(created), ['status READ_ONLY'])
    const { id } = (await author.post(path, ${NEW_BODY})).body.data
    t.equal((await author.patch(\`\${path}/\${id}\`, { status: '${second}' })).status, 403)`,
      ),
    )
  }
  return tests
}
