/** Finds assertions of a test file that hold whatever the tested code does, by parsing the file. */
import { SourceMap, type SourceMapPayload } from 'node:module'
import {
  type AnyNode,
  type ArrowFunctionExpression,
  type CallExpression,
  type FunctionExpression,
  type Pattern,
  parse,
} from 'acorn'
import { ancestor, full, simple } from 'acorn-walk'
import { transformSync } from 'esbuild'

/** Methods of tap's `t` that compare, or report a result. */
const ASSERTIONS = new Set(
  [
    'ok notOk equal not type same notSame strictSame strictNotSame pass fail error emits',
    'has notHas hasStrict notHasStrict hasProp hasProps hasOwnProp hasOwnProps hasOwnPropsOnly',
    'match notMatch matchOnly notMatchOnly matchStrict notMatchStrict matchOnlyStrict notMatchOnlyStrict',
    'throws doesNotThrow rejects resolves resolveMatch matchSnapshot resolveMatchSnapshot test',
  ].flatMap((names) => names.split(' ')),
)
/** Those that return a promise of their result. */
const PROMISED = new Set(['rejects', 'resolves', 'resolveMatch', 'resolveMatchSnapshot'])
/** Those that ignore what the pattern does not have: `[]` matches every array, `{}` every object. */
const PARTIAL = new Set(['match', 'matchStrict', 'has', 'hasStrict', 'resolveMatch'])
const NEGATED_PARTIAL = new Set(['notHas', 'notHasStrict'])
const EQUALITIES = new Set(['equal', 'same', 'strictSame', 'match', 'has'])
const ALWAYS_TRUE = new Set([
  ...['ArrayExpression', 'ObjectExpression', 'ArrowFunctionExpression', 'FunctionExpression'],
  ...['NewExpression', 'TemplateLiteral', 'Literal'],
])
/** Methods of arrays and promises whose result is an object, empty or not. */
const OBJECT_METHODS = new Set('filter map flatMap slice sort split then catch finally allSettled'.split(' '))
/** Members of a finished process that say whether it failed. */
const PROCESS_RESULTS = new Set(['code', 'status', 'error', 'signal', 'exitCode'])

/** The names of tests: esbuild calls a `t` that shadows another one `t2`. */
const TEST_NAME = /^(?:t|test)\d*$/

type Callback = ArrowFunctionExpression | FunctionExpression

const isFunction = (node: AnyNode | null | undefined): node is Callback =>
  node?.type === 'ArrowFunctionExpression' || node?.type === 'FunctionExpression'

/** Returns whether the nodes below one include one for which the condition holds. */
function some(node: AnyNode | null | undefined, condition: (each: AnyNode) => boolean): boolean {
  let isFound = false
  if (node) full(node, (each) => (isFound ||= condition(each as AnyNode)))
  return isFound
}

/** Returns the name of a method of `t` that a node calls. */
function getAssertion(node: AnyNode): string | undefined {
  if (node.type !== 'CallExpression' || node.callee.type !== 'MemberExpression') return undefined
  const { object, property } = node.callee
  if (object.type !== 'Identifier' || !TEST_NAME.test(object.name) || property.type !== 'Identifier')
    return undefined
  return ASSERTIONS.has(property.name) ? property.name : undefined
}

const isAssertion = (node: AnyNode) => getAssertion(node) !== undefined

type Values = ReadonlyMap<string, AnyNode | null | undefined>

/** Returns whether a pattern has an empty array or object at any depth, also in a variable of the file. */
function hasEmptyPart(pattern: AnyNode | null | undefined, values: Values): boolean {
  const parts = (() => {
    if (pattern?.type === 'Identifier') return [values.get(pattern.name)]
    if (pattern?.type === 'ArrayExpression') return pattern.elements
    if (pattern?.type !== 'ObjectExpression') return undefined
    return pattern.properties.map((each) => (each.type === 'Property' ? each.value : each.argument))
  })()
  return parts !== undefined && (parts.length === 0 || parts.some((part) => hasEmptyPart(part, values)))
}

const hasCall = (node: AnyNode) =>
  some(node, ({ type }) => ['CallExpression', 'AwaitExpression', 'NewExpression'].includes(type))

/** Returns the name of the function or method that a node calls. */
function getCalled(node: AnyNode | null | undefined): string | undefined {
  if (node?.type !== 'CallExpression') return undefined
  const { callee } = node
  if (callee.type === 'Identifier') return callee.name
  return callee.type === 'MemberExpression' && callee.property.type === 'Identifier'
    ? callee.property.name
    : undefined
}

/** Returns whether a call runs a program and its result has a failure as a value: `spawnSync`, or `.catch((error) => error)`. */
function hidesFailure(node: AnyNode): boolean {
  return some(node, (each) => {
    if (each.type !== 'CallExpression') return false
    const [handler] = each.arguments
    return (
      getCalled(each) === 'spawnSync' ||
      (getCalled(each) === 'catch' &&
        isFunction(handler) &&
        handler.body.type === 'Identifier' &&
        handler.params.some((param) => param.type === 'Identifier' && param.name === getName(handler.body)))
    )
  })
}

const getName = (node: AnyNode | Pattern) => (node.type === 'Identifier' ? node.name : undefined)

/** What a file declares. */
interface Declared {
  /** Variables with one declaration, by their names. */
  values: Values
  /** Names of async functions. */
  asyncNames: ReadonlySet<string>
  read(node: AnyNode | undefined): string | undefined
}

/** Returns what is wrong with an assertion, or undefined. */
function checkAssertion(name: string, node: CallExpression, { values, asyncNames, read }: Declared) {
  const [first, second] = node.arguments
  if (NEGATED_PARTIAL.has(name) && (second?.type === 'Literal' || second?.type === 'TemplateLiteral'))
    return 'no object has a text'
  if (PARTIAL.has(name) && hasEmptyPart(second, values)) return '[] and {} match whatever there is'
  if (EQUALITIES.has(name) && first && read(first) === read(second) && !hasCall(first))
    return 'the value is compared with itself'
  if (name === 'doesNotThrow' && isFunction(first) && first.async) return 'an async function does not throw'
  if (name !== 'ok' || !first) return undefined
  const called = getCalled(first)
  const isMethod = first.type === 'CallExpression' && first.callee.type === 'MemberExpression'
  if (
    ALWAYS_TRUE.has(first.type) ||
    (called !== undefined && (isMethod ? OBJECT_METHODS : asyncNames).has(called))
  )
    return 'the value is true whatever it has'
  return undefined
}

/** Returns what is wrong with the callback of a test, or undefined. */
function checkCallback(callback: Callback): string | undefined {
  const [param] = callback.params
  if (!param) return 'the callback takes no t'
  const name = getName(param)
  if (name === undefined) return undefined
  let isUsed = false
  ancestor(callback.body, {
    Identifier(node, _state, ancestors) {
      if (node.name !== name) return
      const parent = ancestors.at(-2)
      // Passed to a helper, or a method that asserts.
      if (parent?.type !== 'MemberExpression' || parent.object !== node) isUsed = true
      else if (parent.property.type === 'Identifier' && ASSERTIONS.has(parent.property.name)) isUsed = true
    },
  })
  return isUsed ? undefined : 'the test asserts nothing'
}

/**
 * Returns the faults of a test file, as `line: what is wrong`, in the order of the lines. What depends on values is not
 * found: an object that `notMatch` compares with a text, values of different types in `notSame`, a promise in a variable,
 * a loop over an empty list. `packages/testing/run/require-assertions.js` finds tests in which nothing was asserted.
 */
export function findVacuousAssertions(source: string): string[] {
  const { code, map } = transformSync(source, { loader: 'ts', sourcemap: 'external', target: 'esnext' })
  const lines = new SourceMap(JSON.parse(map) as SourceMapPayload)
  const tree = parse(code, { ecmaVersion: 'latest', sourceType: 'module', locations: true })
  const found: { line: number; fault: string }[] = []
  const report = (node: AnyNode, fault: string | undefined) => {
    if (fault === undefined) return
    const { line, column } = node.loc?.start ?? { line: 1, column: 0 }
    const entry = lines.findEntry(line - 1, column)
    found.push({ line: 'originalLine' in entry ? entry.originalLine + 1 : line, fault })
  }

  const asyncNames = new Set<string>()
  const values = new Map<string, AnyNode | null | undefined>()
  simple(tree, {
    FunctionDeclaration(node) {
      if (node.async && node.id) asyncNames.add(node.id.name)
    },
    VariableDeclarator({ id, init }) {
      const name = getName(id)
      if (name === undefined) return
      if (isFunction(init) && init.async) asyncNames.add(name)
      values.set(name, values.has(name) ? undefined : init)
    },
  })
  const declared = { values, asyncNames, read: (node?: AnyNode) => node && code.slice(node.start, node.end) }

  simple(tree, {
    CallExpression(node) {
      const name = getAssertion(node)
      if (name !== undefined) report(node, checkAssertion(name, node, declared))
      if (name === 'test' || TEST_NAME.test(getName(node.callee) ?? '')) {
        const callback = node.arguments.find(isFunction)
        if (callback) report(node, checkCallback(callback))
      }
      const [handler] = node.arguments
      if (getCalled(node) === 'catch' && isFunction(handler) && some(handler.body, isAssertion))
        report(node, 'nothing is asserted if the promise resolves')
    },
    ExpressionStatement({ expression }) {
      const name = getAssertion(expression)
      if (name !== undefined && PROMISED.has(name))
        report(expression, `the promise of ${name} is not awaited`)
    },
    TryStatement(node) {
      if (node.handler && some(node.handler.body, isAssertion) && !some(node.block, isAssertion))
        report(node, 'nothing is asserted if the block does not throw')
    },
    VariableDeclarator({ id, init }) {
      if (!init || id.type !== 'ObjectPattern' || !hidesFailure(init)) return
      const names = id.properties.map((each) => (each.type === 'Property' ? getName(each.key) : undefined))
      if (names.includes('stdout') && !names.some((each) => PROCESS_RESULTS.has(each ?? '')))
        report(id, 'the output of a program that does not start is empty')
    },
    MemberExpression(node) {
      if (getName(node.property as AnyNode) === 'stdout' && hidesFailure(node.object as AnyNode))
        report(node, 'the output of a program that does not start is empty')
    },
  })
  return found.sort((a, b) => a.line - b.line).map(({ line, fault }) => `${line}: ${fault}`)
}
