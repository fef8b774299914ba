/**
 * Every regular expression of the service takes time linear in its input, so that no request can block the
 * process.
 */
import t from 'tap'
import { createAjv, serializerOptions } from '../../packages/api/src/validation/formats.ts'
import { testApp } from '../../packages/testing/helpers/app.ts'
import { type Expression, findInSources, findKeyword } from './regular-expressions.ts'

// Of the checker's programs, the one that is installed for this machine; else the one in JavaScript, which is six
// times as slow. Neither needs a network. It is read when the checker is loaded.
process.env.RECHECK_BACKEND ??= 'auto'
const { check } = await import('recheck')

/** Of one expression. */
const TIMEOUT_MS = 60_000

/** Returns a line for each expression that is not linear. */
async function findProblems(expressions: readonly Expression[]): Promise<string[]> {
  const problems: string[] = []
  for (const { source, flags, place } of expressions) {
    const found = await check(source, flags, { timeout: TIMEOUT_MS })
    if (found.status === 'safe') continue
    const verdict = found.status === 'vulnerable' ? found.complexity.summary : found.error.kind
    problems.push(`${place}: /${source}/${flags}: ${verdict}`)
  }
  return problems
}

t.test('every regular expression in the sources is linear, and written as a literal', async (t) => {
  const { expressions, computed } = findInSources()
  t.ok(expressions.length > 50, 'they were found')
  t.ok(expressions.some(({ place }) => place.startsWith('packages/resources/src/idempotency/index.ts:')))
  const superlinear = { source: '^\\s*a\\s*=\\s*"?([^"]*?)"?\\s*$', flags: '', place: 'x.ts:1' }
  t.match(await findProblems([superlinear]), [/^x\.ts:1: .*polynomial/], 'others are found')
  t.same(computed, [], 'a computed pattern cannot be checked: write it as a literal')
  t.same(await findProblems(expressions), [])
})

t.test('every pattern and format of the documents is linear', async (t) => {
  const { anybody } = await testApp(t)
  const documents = await Promise.all([1, 2].map((v) => anybody.get(`/openapi/v${v}.json`)))
  const patterns = documents.flatMap(({ body }) => findKeyword(body, 'pattern'))
  t.ok(patterns.length > 0, 'they were found')
  const once = [...new Map(patterns.map((each) => [each.value, each])).values()]
  t.same(await findProblems(once.map(({ value, path }) => ({ source: value, flags: 'u', place: path }))), [])
  t.same(
    once.filter(({ value }) => /\\[sSwW]/.test(value)),
    [],
    'a published pattern means the same in every language: it has no \\s, \\S, \\w, \\W',
  )
  t.same(
    once.filter(({ value }) => /\(\?(?:[=!]|<[=!])/.test(value)),
    [],
    'every language can compile a published pattern: it has no look-around',
  )

  const { formats } = createAjv()
  // A standard name, for the format of this service that is stricter: `https-uri`.
  const known = new Set([...Object.keys(formats), 'uri'])
  const named = new Set(
    documents.flatMap(({ body }) => findKeyword(body, 'format')).map(({ value }) => value),
  )
  t.same(
    [...named].filter((name) => !known.has(name)),
    [],
  )
  const expressions: Expression[] = []
  for (const [name, format] of Object.entries(formats)) {
    if (format instanceof RegExp) {
      expressions.push({ source: format.source, flags: format.flags, place: `the format ${name}` })
    } else t.ok(Object.hasOwn(serializerOptions.ajv.formats, name), `the function of ${name} is ours`)
  }
  t.same(await findProblems(expressions), [])
})
