/** The template of `plugins/{name}.ts`: a collection and its routes. */
import { toWords, withArticle } from '../../../packages/http/src/lib/to-words.ts'
import { MAX_FILTER_VALUES } from '../../../packages/resources/src/collection/request/parameters.ts'
import type { Field } from '../fields.ts'
import { toPascal, toSingular } from '../names.ts'
import type { FieldCondition, OwnerPath, Reference, ResourcePlan } from '../resource-plan.ts'
import { importTables, importUsed, list, literal, quote } from './code.ts'
import { getPrefix } from './table.ts'

const conditions = (texts: readonly string[]) => `[${texts.map((text) => `{ ${text} }`).join(', ')}]`

/** Returns the conditions of a path: the id and the field are those of one row. */
function writePath({ path, conditions: own }: OwnerPath): string[] {
  const caller = `'${path}': CALLER`
  const prefix = path.slice(0, path.lastIndexOf('.'))
  return own.length === 0
    ? [caller]
    : own.map(({ field, value }) => `${caller}, '${prefix}.${field}': ${literal(value)}`)
}

/** Returns the rules of the access: who may read, and who may write. */
function writeRules({ owner, isOwnerWriting, ownConditions, ownerPaths, visible }: ResourcePlan): {
  readable: string
  writable: string
} {
  const own = owner ? [`${owner.column}: CALLER`] : []
  const write = ({ field, value }: FieldCondition) => `${field}: ${literal(value)}`
  const others = visible === 'all' ? [] : visible.map(write)
  const ownRead =
    ownConditions.length > 0
      ? own.flatMap((caller) => ownConditions.map((condition) => `${caller}, ${write(condition)}`))
      : own
  // Who reads by a path without conditions needs no other condition of the same path.
  const isCovered = ({ path, conditions: needed }: OwnerPath) =>
    needed.length > 0 && ownerPaths.some((each) => each.path === path && each.conditions.length === 0)
  const related = ownerPaths.filter((each) => !isCovered(each)).flatMap(writePath)
  const allRead = [...new Set([...others, ...ownRead, ...related])]
  const allWrite = [
    ...(isOwnerWriting ? own : []),
    ...ownerPaths.filter(({ isWriting }) => isWriting).flatMap(writePath),
  ]
  const read = visible === 'all' ? 'true' : allRead.length > 0 ? conditions(allRead) : undefined
  const staff = 'admin: true, manager: true'
  return {
    readable: `{ ${staff}${read ? `, member: ${read}` : ''} }`,
    writable: `{ ${staff}${allWrite.length > 0 ? `, member: ${conditions(allWrite)}` : ''} }`,
  }
}

/** The types of fields whose values can be limited. */
export const LIMITED = new Set<string>(['integer', 'money', 'decimal', 'date', 'time', 'timestamp'])

/** Lists may limit the fields that they can sort by, which have an index. That of a nullable field is no plain one. */
const listRanges = ({ sorts, fields }: ResourcePlan): string[] =>
  sorts.filter((name) =>
    fields.some((field) => field.name === name && LIMITED.has(field.type) && !field.isNullable),
  )

/** Returns whether the negation of a filter is a filter by the other values, which reads the same index. */
const isNegatable = (field: Field) =>
  !field.isNullable &&
  (field.type === 'boolean' || (field.type === 'enum' && field.values.length <= MAX_FILTER_VALUES))

/** Returns the names of further filters: negations, null checks, prefixes, and those of them that have no index. */
export function listFurtherFilters(plan: ResourcePlan) {
  const { fields, filters } = plan
  const getNames = (isWanted: (field: Field) => boolean) => fields.filter(isWanted).map(({ name }) => name)
  const nullChecks = getNames(({ isNullable }) => isNullable)
  return {
    negations: getNames((field) => isNegatable(field) && filters.includes(field.name)),
    nullChecks,
    prefixes: getPrefix(plan),
    unindexed: nullChecks.filter((name) => !filters.includes(name)).map((name) => `${name}_null`),
  }
}

/**
 * A list of what refers to a resource with states filters by its status, if an index begins with the reference. All rows
 * below a parent have the same one.
 */
const writeRelatedFilters = ({ parent, filters }: ResourcePlan, { column, to }: Reference) =>
  to.filters.includes('status') && column !== parent?.column && (!parent || filters.includes(column))
    ? "filters: ['status'] "
    : ''

export function writeRelation(plan: ResourcePlan, reference: Reference): string {
  const { column, table } = reference
  const filters = writeRelatedFilters(plan, reference)
  return `${column.replace(/_id$/, '')}: { to: ${table}, local: '${column}', foreign: 'id', many: false, ${filters}},`
}

const writeRelations = (plan: ResourcePlan) =>
  `{ ${plan.references.map((reference) => writeRelation(plan, reference)).join('\n')} }`

/** The fields that not every role reads or writes. */
function writeRestrictions({ restrictions }: ResourcePlan): string {
  if (restrictions.length === 0) return ''
  const rules = restrictions.map(({ field, read, write }) => {
    const lists = [...(read ? [`read: ${list(read)}`] : []), ...(write ? [`write: ${list(write)}`] : [])]
    return `${field}: { ${lists.join(', ')} },`
  })
  return `fields: { ${rules.join('\n')} },`
}

function writeTransitions({ states }: ResourcePlan): string {
  if (!states) return ''
  const following = [...states].map(([state, next]) => `${state}: ${list(next)},`)
  return `transitions: { status: { ${following.join('\n')} } },`
}

/** Lets only managers and admins change the status. */
const writeStatusGuard = ({ isStatusForStaff, variable }: ResourcePlan) =>
  isStatusForStaff
    ? `
const change: ChangeOf<typeof ${variable}> = {
  // Members change their own rows, but only managers and admins decide on the status.
  guard({ changed, actor }) {
    if (actor.role !== 'member' || !changed.has('status')) return
    throw apiError('FORBIDDEN', { message: 'Only managers and admins can change the status' })
  },
}
`
    : ''

/** Returns the texts of an action: `refunds` creates a refund of an order; `confirm` and `check-in` are verbs. */
function nameAction(name: string, singular: string) {
  const noun = toSingular(name)
  const row = withArticle(toWords(singular))
  if (noun !== undefined) {
    const created = withArticle(toWords(noun))
    return {
      operationId: `create${singular}${noun}`,
      summary: `Create ${created} of ${row}`,
      description: `Adds ${created} to ${row}.`,
    }
  }
  const [verb = '', ...rest] = name.split('-')
  const summary = [toPascal(verb), row, ...rest].join(' ')
  return {
    operationId: `${verb}${singular}${toPascal(rest.join('-'))}`,
    summary,
    description: `${summary}.`,
  }
}

/** Writes a route for each action, which a team completes. */
const writeActions = ({ actions, singular, variable }: ResourcePlan, path: string): string =>
  actions
    .map((name) => {
      const { operationId, summary, description } = nameAction(name, singular)
      return `
  app.post(
    '${path}/:id/${name}',
    action(
      ${variable},
      { operationId: '${operationId}', summary: ${quote(summary)}, description: ${quote(description)} },
      // Throw apiError('RESOURCE_CONFLICT') if the row does not permit it; write the columns that it changes.
      ({ store, current }) => store.update(current, {}),
    ),
  )`
    })
    .join('')

/** Writes the access of the actions. */
const writeActionAccess = ({ actions }: ResourcePlan): string =>
  actions.length === 0
    ? ''
    : `, actions: { ${actions.map((name) => `${/-/.test(name) ? quote(name) : name}: writable`).join(', ')} }`

/** Returns the path or the package from which a plugin imports a table. */
export const toTableModule = (file: string) =>
  file.startsWith('tables/') ? `../drizzle/${file}` : '@resource-api/database'

export function writePlugin(plan: ResourcePlan): string {
  const { name, singular, variable, owner, parent } = plan
  const ownerColumn = owner && owner !== parent ? owner.column : undefined
  const immutable = [
    ...(ownerColumn ? [ownerColumn] : []),
    ...plan.fields.filter(({ isImmutable }) => isImmutable).map((field) => field.name),
  ]
  const isPathWriting = plan.ownerPaths.some(({ isWriting }) => isWriting)
  // Members who write by a path enter other users.
  const unreadable = plan.references.filter(
    (each) =>
      ((owner && plan.isOwnerWriting) || isPathWriting) &&
      (each.to.memberReads === false || (isPathWriting && each === owner)),
  )
  const unchecked = unreadable.flatMap(({ column }) => (column === parent?.column ? [] : [column]))
  const ranges = listRanges(plan)
  const { negations, nullChecks, prefixes, unindexed } = listFurtherFilters(plan)
  const writeNames = (part: string, names: readonly string[]) =>
    names.length > 0 ? `${part}: ${list(names)},` : ''
  const { readable, writable } = writeRules(plan)
  const path = `${parent ? `/${parent.to.name}/:${parent.column}` : ''}/${name}`
  const change = plan.isStatusForStaff ? ', change' : ''
  const bodies = [
    immutable.length > 0 ? `immutable: ${list(immutable)},` : '',
    unchecked.length > 0
      ? `// Members cannot read these rows, but may refer to them.\n    uncheckedReferences: ${list(unchecked)},`
      : '',
    plan.states ? "kept: ['status']," : '',
    plan.isStatusForStaff ? "withheld: (actor) => (actor.role === 'member' ? ['status'] : [])," : '',
  ].filter((text) => text !== '')
  const code = `
const relations = ${writeRelations(plan)} as const

declare module '@resource-api/resources/known-relations' {
  interface KnownRelations {
    ${plan.table}: { table: typeof table; relations: typeof relations }
  }
}

const readable = defineRules(table, ${readable})
const writable = defineRules(table, ${writable})

const ${variable} = collection({
  table,
  description: ${quote(plan.description)},
  ${parent ? `parent: { to: '${parent.to.name}', member: '${parent.column}' },` : ''}
  schemas: { read: ${singular}, create: ${singular}Create, change: ${singular}Change },
  ${bodies.length > 0 ? `bodies: {\n    ${bodies.join('\n    ')}\n  },` : ''}
  lists: {
    filters: ${list(plan.filters)},
    ${writeNames('negations', negations)}
    ${writeNames('nullChecks', nullChecks)}
    ${writeNames('prefixes', prefixes)}
    ${writeNames('ranges', ranges)}
    ${unindexed.length > 0 ? '// An index of each would slow down every write.' : ''}
    ${writeNames('unindexed', unindexed)}
    sorts: ${list([...plan.sorts, 'created_at', 'updated_at'])},
    search: ${list(plan.search)},
  },
  relations,
  access: { ...toReads(readable), ...toWrites(writable)${writeActionAccess(plan)} },
  ${writeRestrictions(plan)}
  ${writeTransitions(plan)}
  ${ownerColumn && plan.isOwnerWriting ? `defaults: (actor) => ({ ${ownerColumn}: actor.userId }),` : ''}
})
${writeStatusGuard(plan)}
export default defineResource(${variable}, async (app) => {
  app.get('${path}', list(${variable}))
  app.get('${path}/:id', read(${variable}))
  app.post('${path}', create(${variable}))
  app.put('${path}/:id', replace(${variable}${change}))
  app.patch('${path}/:id', update(${variable}${change}))
  app.delete('${path}/:id', remove(${variable}))${writeActions(plan, path)}
})
`
  const tables = [{ table: `${variable} as table`, file: `tables/${name}.ts` }, ...plan.references]
  const engine = [
    ...['type ChangeOf', 'action', 'collection', 'create', 'defineResource', 'defineRules', 'list', 'read'],
    ...['remove', 'replace', 'update'],
  ]
  return `/** ${toPascal(name).replace(/(?<=.)[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)}. */
${importTables(tables, toTableModule, code)}import { ${singular}, ${singular}Change, ${singular}Create } from '../schemas/${name}.ts'
${importUsed(['apiError', 'CALLER', 'toReads', 'toWrites'], '@resource-api/http', code)}${importUsed(engine, '@resource-api/resources', code)}${code}`
}
