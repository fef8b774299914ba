/** The template of `plugins/resources/{name}.ts`. */
import { toWords, withArticle } from '../../../lib/to-words.ts'
import { toPascal, toSingular } from '../names.ts'
import type { ResourcePlan } from '../resource-plan.ts'
import { importTables, importUsed, list, literal, quote } from './code.ts'
import { getNullSort } from './null-sort.ts'

const conditions = (texts: readonly string[]) => `[${texts.map((text) => `{ ${text} }`).join(', ')}]`

/** Returns the rules that all operations share: who may read, and who may write. */
function writeRules({ owner, isOwnerWriting, visible }: ResourcePlan): {
  readable: string
  writable: string
} {
  const own = owner ? [`${owner.column}: CALLER`] : []
  const others = visible === 'all' ? [] : visible.map(({ field, value }) => `${field}: ${literal(value)}`)
  const read =
    visible === 'all' ? 'true' : others.length + own.length > 0 ? conditions([...others, ...own]) : undefined
  const staff = 'admin: true, manager: true'
  return {
    readable: `{ ${staff}${read ? `, member: ${read}` : ''} }`,
    writable: `{ ${staff}${owner && isOwnerWriting ? `, member: ${conditions(own)}` : ''} }`,
  }
}

/** The types of fields whose values can be limited. */
export const LIMITED = new Set<string>(['integer', 'money', 'decimal', 'date', 'time', 'timestamp'])

/** Lists may limit the fields that they can sort by, which have an index. That of a nullable field is no plain one. */
const listRanges = ({ sorts, fields }: ResourcePlan): string[] =>
  sorts.filter((name) =>
    fields.some((field) => field.name === name && LIMITED.has(field.type) && !field.isNullable),
  )

function writeSorts(plan: ResourcePlan): string {
  const names = [...plan.sorts, 'created_at', 'updated_at']
  const sorts = names.map((name) => {
    const column = `${plan.variable}.${name}`
    const field = plan.fields.find((each) => each.name === name)
    if (!field?.isNullable) return `${name}: ${column},`
    const { ascending, descending, nulls, prefix } = getNullSort(field, column)
    return `${name}: {
      column: ${column},
      ascending: sql\`${ascending}\`,
      descending: sql\`${descending}\`,
      nulls: { ascending: '${nulls.ascending}', descending: '${nulls.descending}' },
      ${prefix === undefined ? '' : `prefix: '${prefix}',`}
    },`
  })
  return `{ ${sorts.join('\n')} }`
}

const writeRelations = ({ references }: ResourcePlan) =>
  `{ ${references
    .map(
      ({ column, table }) =>
        `${column.replace(/_id$/, '')}: { to: ${table}, local: '${column}', foreign: 'id', many: false },`,
    )
    .join('\n')} }`

function writeTransitions({ states }: ResourcePlan): string {
  if (!states) return ''
  const following = [...states].map(([state, next]) => `${state}: ${list(next)},`)
  return `transitions: { status: { ${following.join('\n')} } },`
}

/** Lets only managers and admins set the status. */
const writeStatusGuard = ({ isStatusForStaff }: ResourcePlan) =>
  isStatusForStaff
    ? `
  withheld: (actor) => (actor.role === 'member' ? ['status'] : []),
  actions: {
    // Members change their own rows, but only managers and admins decide on the status.
    guard(_current, { changed }, actor) {
      if (actor.role !== 'member' || !changed.has('status')) return
      throw apiError('FORBIDDEN', { message: 'Only managers and admins can change the status' })
    },
  },`
    : ''

/** Writes a function for each operation of its own, which a team completes. */
function writeOperations({ operations, singular }: ResourcePlan): string {
  if (operations.length === 0) return ''
  const written = operations.map((name) => {
    const noun = toSingular(name) ?? toPascal(name)
    return `
      ${/-/.test(name) ? quote(name) : name}: {
        operationId: 'create${singular}${noun}',
        summary: ${quote(`Create ${withArticle(toWords(noun))} of ${withArticle(toWords(singular))}`)},
        description: ${quote(`Adds ${withArticle(toWords(noun))} to ${withArticle(toWords(singular))}.`)},
        access: writable,
        // Throw apiError('RESOURCE_CONFLICT') if the row does not permit it; write the columns that it changes.
        run: (store, current) => store.update(current, {}),
      },`
  })
  return `operations: {${written.join('')}},`
}

export function writeDefinition(plan: ResourcePlan): string {
  const { name, singular, plural, variable, owner, parent } = plan
  const ownerColumn = owner && owner !== parent ? owner.column : undefined
  const immutable = [
    ...(ownerColumn ? [ownerColumn] : []),
    ...plan.fields.filter(({ isImmutable }) => isImmutable).map((field) => field.name),
  ]
  const unreadable = plan.references.filter(
    ({ to }) => owner && plan.isOwnerWriting && to.memberReads === false,
  )
  const unchecked = unreadable.flatMap(({ column }) => (column === parent?.column ? [] : [column]))
  const ranges = listRanges(plan)
  const { readable, writable } = writeRules(plan)
  const code = `
const readable = ${readable} as const
const writable = ${writable} as const

export const ${variable}Resource: ResourceDefinition = defineResource({
  name: '${name}',
  singular: '${singular}',
  plural: '${plural}',
  description: ${quote(plan.description)},
  table: ${variable},
  ${parent ? `parent: { to: '${parent.to.name}', member: '${parent.column}' },` : ''}
  schemas: { read: ${singular}, create: ${singular}Create, change: ${singular}Change },
  ${immutable.length > 0 ? `immutable: ${list(immutable)},` : ''}
  ${unchecked.length > 0 ? `// Members cannot read these rows, but may refer to them.\n  uncheckedReferences: ${list(unchecked)},` : ''}
  ${plan.states ? "kept: ['status']," : ''}
  filters: ${list(plan.filters)},
  ${ranges.length > 0 ? `ranges: ${list(ranges)},` : ''}
  sorts: ${writeSorts(plan)},
  search: ${list(plan.search)},
  relations: ${writeRelations(plan)},
  access: {
    list: readable,
    read: readable,
    create: writable,
    replace: writable,
    update: writable,
    remove: writable,
  },
  ${writeTransitions(plan)}
  ${ownerColumn && plan.isOwnerWriting ? `defaults: (actor) => ({ ${ownerColumn}: actor.userId }),` : ''}
  ${writeStatusGuard(plan)}
  ${writeOperations(plan)}
})
`
  const tables = [{ table: variable, file: `tables/${name}.ts` }, ...plan.references]
  return `/** Defines ${toWords(name)}. */
${importUsed(['sql'], 'drizzle-orm', code)}${importTables(tables, (file) => `../../drizzle/${file}`, code)}import { ${singular}, ${singular}Change, ${singular}Create } from '../../schemas/${name}.ts'
${importUsed(['CALLER'], '../access/index.ts', code)}import { defineResource, type ResourceDefinition } from '../collection/definition.ts'
${importUsed(['apiError'], '../errors/index.ts', code)}${code}`
}
