/** The templates of the tests of access rules and status transitions. */
import { withArticle } from '../../../lib/to-words.ts'
import type { ResourcePlan } from '../resource-plan.ts'
import { findWay } from '../states.ts'
import { literal } from './code.ts'
import { type Context, callBody, wrap } from './test-context.ts'
import { getOther } from './values.ts'

/** The change that tests of access send: the first field that can be changed. */
function writeChange({ plan }: Context): string {
  const field = plan.fields.find(
    ({ isImmutable, type, name }) =>
      !isImmutable && type !== 'ref' && !(name === 'status' && plan.states) && !plan.unique.includes(name),
  )
  return field ? `{ ${field.name}: ${literal(getOther(field) ?? '')} }` : '{}'
}

export function writeAccess(context: Context): string {
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

export function writeTransitions(context: Context): string {
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
