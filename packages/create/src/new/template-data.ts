/** Prepares a plan for the templates: what they only insert. */
import { staff } from '@resource-api/database/roles'
import { listIndexes, readLists } from './lists.ts'
import {
  escapeTemplate,
  list,
  literal,
  quote,
  toPascal,
  toSingular,
  toSnake,
  toWords,
  withArticle,
} from './names.ts'
import type { Condition, OwnerPath, Reference, ResourcePlan } from './resource-plan.ts'
import { findWay } from './states.ts'
import {
  type Field,
  getExample,
  getInvalid,
  getOther,
  isSent,
  isSetByCode,
  nameValues,
  writeColumn,
  writeSchema,
} from './types.ts'

const isUnset = ({ isNullable, default: initial }: Field) => !isNullable && initial === undefined

const writeConditions = (conditions: readonly string[]) =>
  conditions.length > 0 ? `[${conditions.map((each) => `{ ${each} }`).join(', ')}]` : undefined

const writeCondition = ({ field, value }: Condition) => `${field}: ${literal(value)}`

/** The roles that read and write all rows. */
const OPEN_ROLES = ['admin', ...staff]

/** Their rules, as properties. */
const STAFF_RULES = OPEN_ROLES.map((role) => `${/^\w+$/.test(role) ? role : quote(role)}: true`).join(', ')

/** Their names in texts: `managers and admins`. */
export const STAFF_WORDS = new Intl.ListFormat('en').format(
  OPEN_ROLES.toReversed().map((role) => `${toWords(role)}s`),
)

/** Returns the conditions of a path: the id and the field are those of one row. */
function writePath({ path, conditions }: OwnerPath): string[] {
  const prefix = path.slice(0, path.lastIndexOf('.'))
  const caller = `'${path}': CALLER`
  return conditions.length === 0
    ? [caller]
    : conditions.map(({ field, value }) => `${caller}, '${prefix}.${field}': ${literal(value)}`)
}

/** Returns the rules of members: which rows they read, and which they write. */
function viewRules({ owner, isOwnerWriting, ownConditions, ownerPaths, visible }: ResourcePlan) {
  const own = owner ? `${owner.column}: CALLER` : undefined
  const ownRead =
    own === undefined
      ? []
      : ownConditions.length === 0
        ? [own]
        : ownConditions.map((each) => `${own}, ${writeCondition(each)}`)
  // Who reads by a path without conditions needs no other condition of the same path.
  const isCovered = ({ path, conditions }: OwnerPath) =>
    conditions.length > 0 && ownerPaths.some((each) => each.path === path && each.conditions.length === 0)
  const paths = ownerPaths.filter((each) => !isCovered(each)).flatMap(writePath)
  const others = visible === 'all' ? [] : visible.map(writeCondition)
  return {
    memberReads:
      visible === 'all' ? 'true' : writeConditions([...new Set([...others, ...ownRead, ...paths])]),
    memberWrites: writeConditions([
      ...(own !== undefined && isOwnerWriting ? [own] : []),
      ...ownerPaths.filter((path) => path.isWriting).flatMap(writePath),
    ]),
  }
}

const TABLES = './tables/'

/** Returns the imports of the tables of the application, one for each file, and those of the package as further names. */
function viewImports(references: readonly Reference[]) {
  const files = new Map<string, Set<string>>()
  for (const { table, to } of references) {
    const file = to.table?.module.replace(TABLES, '') ?? ''
    files.set(file, (files.get(file) ?? new Set()).add(table))
  }
  const isOwn = ([file]: [string, Set<string>]) => file.endsWith('.ts')
  return {
    imports: [...files].filter(isOwn).map(([file, names]) => ({ file, names: [...names].join(', ') })),
    databaseTables: [...files]
      .filter((each) => !isOwn(each))
      .flatMap(([, names]) => [...names].map((each) => `, ${each}`))
      .join(''),
  }
}

function viewLists(plan: ResourcePlan) {
  const { existing, filters, parent } = plan
  const { sorts, search, ...lists } = readLists(plan)
  const { nullChecks, ranges } = lists
  const parameters = [
    'id',
    parent?.column,
    ...filters,
    ...ranges,
    ...nullChecks.map((name) => `${name}_null`),
  ]
  const parts: Record<string, readonly string[]> = {
    ...lists,
    // An index of each would slow down every write.
    unindexed:
      existing?.view?.scans.filter((each) => parameters.includes(each)) ??
      nullChecks.filter((name) => !filters.includes(name)).map((name) => `${name}_null`),
    ...{ sorts, search },
  }
  return Object.entries(parts).flatMap(([part, names]) =>
    names.length > 0 ? [{ part, names: list(names), isUnindexed: part === 'unindexed' }] : [],
  )
}

function viewColumns({ parent, owner, fields, references, existing }: ResourcePlan) {
  const isView = existing?.view !== undefined
  const writeKey = ({ column, table, cascades }: Reference, isNullable = false) => ({
    name: column,
    column: `uuid()${isNullable ? '' : '.notNull()'}${isView ? '' : `.references(() => ${table}.id${cascades ? ", { onDelete: 'cascade' }" : ''})`}`,
  })
  const fixed = [...new Set([parent, owner])].flatMap((each) => (each ? [writeKey(each)] : []))
  const others = fields.flatMap((field) => {
    const reference = references.find(({ column }) => column === field.name)
    if (field.isComputed) return []
    return [
      reference ? writeKey(reference, field.isNullable) : { name: field.name, column: writeColumn(field) },
    ]
  })
  return [...fixed, ...others]
}

/** Returns the texts of an action: `refunds` creates a refund of an order; `confirm` and `check-in` are verbs. */
function viewAction(name: string, singular: string) {
  const key = /-/.test(name) ? quote(name) : name
  const noun = toSingular(name)
  const row = withArticle(toWords(singular))
  const [verb = '', ...rest] = name.split('-')
  const created = noun === undefined ? '' : withArticle(toWords(noun))
  const summary =
    noun === undefined ? [toPascal(verb), row, ...rest].join(' ') : `Create ${created} of ${row}`
  const operationId =
    noun === undefined ? `${verb}${singular}${toPascal(rest.join('-'))}` : `create${singular}${noun}`
  const text = noun === undefined ? `${summary}.` : `Adds ${created} to ${row}.`
  return { name, key, operationId, summary: quote(summary), text: quote(text) }
}

const viewSchema =
  ({ singular, states }: ResourcePlan) =>
  (field: Field) => {
    const { name } = field
    const following = [...(states ?? [])].flatMap(([state, next]) =>
      next.length > 0 ? [`${state} -> ${next.join(', ')}`] : [],
    )
    const schema = writeSchema(field, name === 'status' && states ? following.join('; ') : undefined)
    if (field.type !== 'enum') return { name, schema, example: writeExample(field) }
    const named = schema
      .replace(list(field.values), () => nameValues(singular, name))
      .replace('{ ', `{ title: '${singular}${toPascal(name)}', `)
      .replace(/, examples: \[[^\]]*\]/, '')
    return { name, schema: named, example: writeExample(field) }
  }

/** An example as code. */
const writeExample = (field: Field, value = getExample(field)) =>
  field.type === 'ref' ? 'exampleId' : literal(value)

const writeBody = (fields: readonly Field[], getValue = getExample) =>
  fields.map((field) => `${field.name}: ${writeExample(field, getValue(field))}`).join(', ')

/** The change of the example: the next state, or a field that every role may write. */
function getChanged({ fields, states, restrictions }: ResourcePlan): Field[] {
  const changeable = fields.filter((each) => !each.isImmutable && isSent(each))
  const open = changeable.filter(({ name }) => restrictions.every((each) => each.field !== name))
  const status = states && open.find(({ name }) => name === 'status')
  const [field] = status ? [status] : [...open.filter((each) => getOther(each) !== getExample(each)), ...open]
  return field ? [field] : []
}

/** A transition that the states do not permit, and the states on the way to where it begins. */
function findForbidden({ states }: ResourcePlan) {
  const all = [...(states?.keys() ?? [])]
  for (const from of all)
    for (const to of all)
      if (to !== from && !states?.get(from)?.includes(to))
        return { from, to, way: (states && findWay(states, (each) => each === from)) ?? [] }
  return undefined
}

/** What the test of the resource checks besides its access. */
function viewTest(plan: ResourcePlan) {
  const { fields, unique, restrictions, parent, states } = plan
  const sent = fields.filter(isSent)
  const wrong = sent.flatMap((field) => {
    const [value, code] = getInvalid(field) ?? []
    return value === undefined || restrictions.some((each) => each.field === field.name)
      ? []
      : [{ name: field.name, value, code }]
  })
  const immutable = sent.filter(({ isImmutable }) => isImmutable)
  const defaults = sent.flatMap((field) =>
    isUnset(field) ? [] : [`${field.name}: ${literal(field.default ?? null)},`],
  )
  return {
    wrong,
    defaults: defaults.join(' '),
    hasFixed: immutable.length > 0 && immutable.length < sent.length,
    ...{ isBelowUsers: parent?.to.name === 'users', isBelowOther: parent && parent.to.name !== 'users' },
    isMemberRefused: plan.isStatusForStaff && plan.owner !== undefined && plan.isOwnerWriting,
    secondState: [...(states?.values() ?? [])][0]?.[0],
    violations: wrong
      .map(({ name, code }) => quote(`${name} ${code}`))
      .sort()
      .join(', '),
    hasWrong: wrong.length > 0,
    uniqueWords: unique.join(' and '),
    uniqueViolations: unique
      .map((name) => quote(`${name} ALREADY_EXISTS`))
      .sort()
      .join(', '),
    immutableBody: writeBody(immutable, getOther).replaceAll('exampleId', 'UNKNOWN_ID'),
    immutableViolations: immutable
      .map(({ name }) => quote(`${name} READ_ONLY`))
      .sort()
      .join(', '),
    forbidden: findForbidden(plan),
  }
}

/** Returns what the templates insert. */
export function createTemplateData(plan: ResourcePlan) {
  const { name, singular, parent, owner, fields, states, references, ownerPaths, restrictions, aggregates } =
    plan
  const view = plan.existing?.view
  const ownerColumn = owner && owner !== parent ? owner.column : undefined
  const sent = fields.filter(isSent)
  const immutable = sent.filter(({ isImmutable }) => isImmutable)
  const changeable = sent.filter(({ isImmutable }) => !isImmutable)
  const computed = fields.filter(({ isComputed }) => isComputed)
  const isPathWriting = ownerPaths.some(({ isWriting }) => isWriting)
  const isForMembers = (owner !== undefined && plan.isOwnerWriting) || isPathWriting
  // Members who write by a path enter other users.
  const unchecked = references.filter(
    (each) => isForMembers && each !== parent && (!each.to.isForMembers || (isPathWriting && each === owner)),
  )
  const immutableNames = [...(ownerColumn ? [ownerColumn] : []), ...immutable.map((field) => field.name)]
  const listNames = (names: readonly string[]) => (names.length > 0 ? list(names) : undefined)
  const relations = references.map(({ column, table, to }, i) => ({
    relation: column.replace(/_id$/, ''),
    ...{ column, to: table },
    // The first reference to a resource has an inverse, which rules may follow.
    inverse:
      !view && references.findIndex((each) => each.to === to) === i && !to.relations.includes(toSnake(name))
        ? toSnake(name)
        : undefined,
    // All rows below a parent have the same one.
    hasStatus:
      to.filters.includes('status') &&
      !view?.scans.includes(column) &&
      column !== parent?.column &&
      (!parent || plan.filters.includes(column)),
  }))
  // Computed fields may depend on a hidden one, so they are named too.
  const isHiding = restrictions.some(({ read }) => read)
  const rules = [
    ...restrictions.map(({ field, read, write }) => ({
      field,
      rules: [...(read ? [`read: ${list(read)}`] : []), ...(write ? [`write: ${list(write)}`] : [])].join(
        ', ',
      ),
    })),
    ...computed.flatMap((field) =>
      isHiding && restrictions.every((each) => each.field !== field.name)
        ? [{ field: field.name, rules: '' }]
        : [],
    ),
  ]
  const checks = (plan.existing?.checks ?? []).map((check) => ({
    name: check.name,
    expression: escapeTemplate(check.expression),
    fields: list(check.fields),
    message: quote(`The constraint ${check.name} does not hold`),
  }))
  const words = toWords(name)
  return {
    ...{
      name,
      singular,
      words,
      ownerColumn,
      variable: plan.variable,
      table: plan.table,
      // Without it, the collection has the name of its table.
      hasOwnName: plan.table !== toSnake(name),
      isOwnerWriting: plan.isOwnerWriting,
    },
    ...{ staffRules: STAFF_RULES, staffWords: STAFF_WORDS },
    title: `${words.charAt(0).toUpperCase()}${words.slice(1)}`,
    word: toWords(singular),
    article: withArticle(toWords(singular)),
    description: quote(plan.description),
    path: `${parent ? `/${parent.to.name}/:${parent.column}` : ''}/${name}`,
    ...{
      parentColumn: parent?.column,
      parentName: parent?.to.name,
      parentWords: parent && toWords(parent.to.singular),
    },
    enums: fields.flatMap((field) =>
      field.type === 'enum'
        ? [{ constant: nameValues(singular, field.name), values: list(field.values) }]
        : [],
    ),
    ...{ hasImmutable: immutable.length > 0, immutable: immutable.map(viewSchema(plan)) },
    ...{ isChangeable: changeable.length > 0, changeable: changeable.map(viewSchema(plan)) },
    shown: fields.filter((field) => !isSent(field)).map(viewSchema(plan)),
    // A user may have one row only.
    ownerOfEach: ownerColumn !== undefined && !parent,
    createExample: [
      // Required, unless it is the caller by default.
      ...(ownerColumn && !plan.isOwnerWriting ? [`${ownerColumn}: exampleId`] : []),
      writeBody(sent.filter((field) => isUnset(field))),
    ].join(', '),
    changeExample: writeBody(getChanged(plan), getOther),
    ...{
      existing: plan.existing !== undefined,
      columns: viewColumns(plan),
      isSearched: plan.search.length > 0,
    },
    ...(view && { ...view, hasOtherKey: view.key !== 'id' }),
    ...{ indexes: listIndexes(plan).map(({ code }) => code), checks, hasChecks: checks.length > 0 },
    ...viewImports(references),
    ...{ relations, ...viewRules(plan), lists: viewLists(plan) },
    immutableNames: listNames(immutableNames),
    unchecked: listNames(unchecked.map(({ column }) => column)),
    hasBodies: immutableNames.length > 0 || unchecked.length > 0 || states !== undefined,
    ...{ hasStates: states !== undefined, isStatusForStaff: plan.isStatusForStaff },
    states: [...(states ?? [])].map(([state, following]) => ({ state, following: list(following) })),
    ...{
      hasActions: plan.actions.length > 0,
      actions: plan.actions.map((each) => viewAction(each, singular)),
    },
    ...{ isRestorable: plan.isRestorable, hasAggregates: aggregates !== undefined },
    measures: aggregates && aggregates.measures.length > 0 && list(aggregates.measures),
    groups: aggregates && aggregates.groups.length > 0 && list(aggregates.groups),
    ...{ hasRestrictions: rules.length > 0, restrictions: rules },
    hasDefaults: ownerColumn !== undefined && plan.isOwnerWriting,
    ...{ hasComputed: computed.length > 0, computed: computed.map(viewSchema(plan)) },
    setByCode: writeBody(fields.filter(isSetByCode)),
    ...viewTest(plan),
  }
}
