/**
 * Every regular expression of the service takes time linear in its input, so that no request can block the
 * process.
 */
import t from 'tap'
import { createAjv, serializerOptions } from '../../plugins/validation/formats.ts'
import { testApp } from '../helpers/app.ts'
import { type Expression, findInSource, findInSources, findKeyword } from './regular-expressions.ts'

// Of the checker's programs, the one that is installed for this machine; else the one in JavaScript, which is six
// times as slow. Neither needs a network. It is read when the checker is loaded.
process.env.RECHECK_BACKEND ??= 'auto'
const { check } = await import('recheck')

/** Milliseconds for one expression. */
const PATIENCE = 60_000

/** What is wrong with an expression; undefined for one that is linear. */
async function problemOf({ source, flags, place }: Expression): Promise<string | undefined> {
  const found = await check(source, flags, { timeout: PATIENCE })
  if (found.status === 'safe') return undefined
  const verdict = found.status === 'vulnerable' ? found.complexity.summary : found.error.kind
  return `${place}: /${source}/${flags}: ${verdict}`
}

async function problemsOf(expressions: readonly Expression[]): Promise<string[]> {
  const problems: string[] = []
  for (const expression of expressions) problems.push((await problemOf(expression)) ?? '')
  return problems.filter((problem) => problem !== '')
}

t.test('every regular expression in the sources is linear, and written as a literal', async (t) => {
  const { expressions, computed } = findInSources()
  t.ok(expressions.length > 50, 'they were found')
  t.ok(expressions.some(({ place }) => place.startsWith('plugins/idempotency/index.ts:')))
  t.same(computed, [], 'a computed pattern cannot be checked: write it as a literal')
  t.same(await problemsOf(expressions), [])
})

t.test('every pattern and format of the documents is linear', async (t) => {
  const { anybody } = await testApp(t)
  const documents = await Promise.all([1, 2].map((v) => anybody.get(`/openapi/v${v}.json`)))
  const patterns = documents.flatMap(({ body }) => findKeyword(body, 'pattern'))
  t.ok(patterns.length > 0, 'they were found')
  const once = [...new Map(patterns.map((each) => [each.value, each])).values()]
  t.same(await problemsOf(once.map(({ value, path }) => ({ source: value, flags: 'u', place: path }))), [])
  t.same(
    once.filter(({ value }) => /\\[sSwW]/.test(value)),
    [],
    'a published pattern means the same in every language: it has no \\s, \\S, \\w, \\W',
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
  t.same(await problemsOf(expressions), [])
})

t.test('a pattern with superlinear time is reported with its file and line', async (t) => {
  const source = [
    'interface Header { text: string }',
    '// A comment that the compiler removes.',
    'export const charset = ({ text }: Header) =>',
    String.raw`  /^\s*charset\s*=\s*"?([^"]*?)"?\s*$/.exec(text)`,
    "export const tail = new RegExp('[ ]+$')",
    'export const any = (name: string) => new RegExp(name)',
  ].join('\n')
  const { expressions, computed } = findInSource(source, 'plugins/x.ts')
  t.same(
    (await problemsOf(expressions)).map((problem) => problem.split(' ')[0]),
    ['plugins/x.ts:4:', 'plugins/x.ts:5:'],
  )
  t.same(computed, ['plugins/x.ts:6'])
})
