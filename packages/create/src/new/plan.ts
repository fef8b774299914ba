/** Checks the answers about a new resource against each other and against the application, and completes them. */
import { findBuiltIn } from '@resource-api/database/application'
import { staff } from '@resource-api/database/roles'
import { isPackageTable } from '@resource-api/database/tables'
import { isReservedName, isResourceName } from '@resource-api/resources/internal'
import { UsageError } from '../usage-error.ts'
import { readConditions, readOwner, readRestrictions } from './access.ts'
import { type ReadFields, readFields } from './fields.ts'
import { isTaken } from './identifiers.ts'
import { findRepeatedNames, isLimited, LIMITED } from './lists.ts'
import { quote, split, toCamel, toPascal, toSingular, toSnake, toWords } from './names.ts'
import type {
  Answers,
  ExistingTable,
  KnownResource,
  Option,
  Reference,
  ResourcePlan,
} from './resource-plan.ts'
import { readStates } from './states.ts'
import { type Field, type FieldOf, isSent, type TypeName } from './types.ts'

/** Of PostgreSQL. */
const MAX_IDENTIFIER_LENGTH = 63
/** A trigram index of longer texts makes each change of a row expensive. */
const MAX_SEARCHED_LENGTH = 5_000

const SORTABLE = new Set<TypeName>([...LIMITED, 'text', 'email'])
const FILTERED = new Set<TypeName>(['enum', 'ref', 'boolean', 'email', 'uuid'])
const FILTERABLE = new Set<TypeName>([...FILTERED, 'text', 'currency', 'integer', 'decimal', 'time'])
const MEASURED = new Set<TypeName>(['integer', 'money', 'decimal', 'date', 'timestamp'])
const GROUPED = new Set<TypeName>(['enum', 'boolean', 'currency', 'ref', 'date', 'timestamp'])
const COMMON_TIMES = ['created_at', 'updated_at']
const SEARCHABLE = new Set<TypeName>(['text', 'multiline', 'email'])

const isShort = (field: Field) =>
  field.type === 'email' ||
  ((field.type === 'text' || field.type === 'multiline') && field.max <= MAX_SEARCHED_LENGTH)

const isNone = (answer: string | undefined): answer is undefined =>
  answer === undefined || answer === '' || answer === 'none'

/** @throws UsageError */
function readNames(text: string, allowed: readonly string[]): string[] {
  const names = split(text, ',')
  const wrong = names.filter((name, i) => !allowed.includes(name) || names.indexOf(name) < i)
  if (wrong.length === 0) return names
  throw new UsageError(
    `"${wrong.join('", "')}" is not possible, or stands twice; choose from ${allowed.join(', ') || 'none'}`,
  )
}

/** @throws UsageError */
function checkName(name: string, known: readonly KnownResource[]): void {
  if (!isResourceName(name))
    throw new UsageError(
      `"${name}" is not the name of a collection; write a plural noun in kebab-case, as in order-notes`,
    )
  if (known.some((each) => each.name === name)) {
    const hint = `; in src/application.ts, names: { ${quote(name)}: 'other-name' } gives that of the packages another name`
    throw new UsageError(`There is a resource "${name}" already${findBuiltIn(name) ? hint : ''}`)
  }
  if (isReservedName(name)) throw new UsageError(`The path /${name} is reserved; choose another name`)
  if (name.startsWith('pg-'))
    throw new UsageError(`The names of PostgreSQL's own tables begin with pg_, as that of ${name} would`)
}

/** Returns the name of the table and of the collection in code. */
function toVariable(name: string): string {
  const variable = toCamel(name)
  return isTaken(variable) ? `own${toPascal(name)}` : variable
}

/** The ends of the names that the documents give the schemas of a resource, such as OrderPage. */
const SCHEMAS =
  /^(?:Aggregate|Attributes|Avg|Create|Group|Max|Message|Min|Page|Relationships|Replace|Reply|Status|Sum|Update)$/

const isSchemaOf = (name: string, singular: string) =>
  name.startsWith(singular) && SCHEMAS.test(name.slice(singular.length))

/** @throws UsageError */
function readSingular(name: string, given: string | undefined, known: readonly KnownResource[]): string {
  const singular = given ?? toSingular(name)
  if (singular === undefined || singular === toPascal(name) || !/^[A-Z][A-Za-z0-9]*$/.test(singular))
    throw new UsageError(`write the singular of "${name}" in PascalCase, as in Person`)
  if (isTaken(singular))
    throw new UsageError(
      `the code of a resource imports another "${singular}"; write --singular with another one, as in ${singular}Entry`,
    )
  if (known.some((each) => each.singular === singular || each.plural === singular))
    throw new UsageError(`another resource is called "${singular}"; choose another singular`)
  const other = known.find(
    (each) => isSchemaOf(singular, each.singular) || isSchemaOf(each.singular, singular),
  )
  if (other)
    throw new UsageError(
      `the documents have a schema ${isSchemaOf(singular, other.singular) ? singular : other.singular} already; choose another singular`,
    )
  return singular
}

/** @throws UsageError */
function readReference(
  name: string,
  column: string,
  cascades: boolean,
  known: readonly KnownResource[],
): Reference {
  const to = known.find((each) => each.name === name)
  if (to?.table) return { column, to, table: to.table.name, cascades }
  const possible = known.flatMap((each) => (each.table ? [each.name] : []))
  throw new UsageError(`there is no resource "${name}" to refer to; choose from ${possible.join(', ')}`)
}

/** @throws UsageError */
function readUnique(text: string, fields: readonly Field[], references: readonly Reference[]): string[] {
  const required = fields.filter((field) => !field.isNullable && isSent(field) && field.type !== 'texts')
  const columns = references.map(({ column }) => column)
  const unique = readNames(text, [...new Set([...columns, ...required.map(({ name }) => name)])])
  const isFew = (name: string) =>
    required.some((field) => field.name === name && ['boolean', 'enum', 'currency'].includes(field.type))
  if (!unique.every(isFew)) return unique
  throw new UsageError(`${unique.join(' and ')} have too few values to be a key`)
}

function checkColumns(columns: readonly string[], references: readonly Reference[]): void {
  const mistakes = [
    ...columns
      .filter((name, i) => columns.indexOf(name) < i)
      .map((name) => `"${name}" stands twice, as a field or as the column of another option`),
    ...references
      .map(({ column }) => column.replace(/_id$/, ''))
      .filter((name) => columns.includes(name))
      .map((name) => `"${name}" is the name of a relation already; choose another`),
  ]
  if (mistakes.length > 0) throw new UsageError([...new Set(mistakes)].join('\n'))
}

const createStatus = (values: readonly string[]): FieldOf<'enum'> => ({
  ...{ name: 'status', type: 'enum', values, default: values[0] ?? null },
  ...{ isNullable: false, isImmutable: false, isReadOnly: false, isComputed: false, position: 0 },
})

export interface Problem {
  option: Option
  message: string
}

/**
 * Returns the plan, or the problems of all answers.
 * @param table the table of `--from`, and its fields
 */
export function buildPlan(
  answers: Answers,
  known: readonly KnownResource[],
  table?: ExistingTable & { fields: readonly Field[]; unique: readonly string[] },
): { plan?: ResourcePlan; problems: Problem[] } {
  const problems: Problem[] = []
  const report = (option: Option, message: string) =>
    problems.push({ option, message: option === 'name' ? message : `--${option}: ${message}` })
  /** Runs one check; others go on with `fallback`, so that all problems are found. */
  const attempt = <T>(option: Option, fallback: T, work: () => T): T => {
    try {
      return work()
    } catch (error) {
      if (!(error instanceof UsageError)) throw error
      for (const message of error.message.split('\n')) report(option, message)
      return fallback
    }
  }
  /** Reads the text of an option unless it is absent or `none`. */
  const read = <T>(option: Option, fallback: T, work: (text: string) => T): T => {
    const text = answers[option]
    return isNone(text) ? fallback : attempt(option, fallback, () => work(text))
  }

  // The names.
  const { name } = answers
  const description = answers.description ?? `${toPascal(name).charAt(0)}${toWords(name).slice(1)}`
  attempt('name', undefined, () => checkName(name, known))
  // The singular of a name that is wrong would be wrong too.
  const singular =
    problems.length > 0 ? '' : attempt('singular', '', () => readSingular(name, answers.singular, known))
  if (!/^[^\p{Cc}]{1,200}$/u.test(description) || description.includes('*/'))
    report('description', 'write one line of at most 200 characters, without "*/"')

  // The columns.
  const cascades = read('on-delete', false, (text) => {
    if (text !== 'restrict' && text !== 'cascade') throw new UsageError('write restrict or cascade')
    if (isNone(answers.owner) && isNone(answers.parent))
      throw new UsageError('there is no --owner and no --parent; for a field, write ref(RESOURCE, cascade)')
    return text === 'cascade'
  })
  const states = read('states', undefined, readStates)
  const parent = read('parent', undefined, (to) => {
    const column = `${toSnake(known.find((each) => each.name === to)?.singular ?? to)}_id`
    const reference = readReference(to, column, cascades, known)
    if (!reference.to.isNested) return reference
    throw new UsageError(`"${to}" has a parent itself; a path has one parent at most`)
  })
  const access = read('owner', readOwner(undefined), readOwner)
  const isBelowUsers = parent?.to.name === 'users'
  const owner = attempt('owner', undefined, () => {
    const { column } = access
    if (isBelowUsers && column !== undefined && column !== parent.column)
      throw new UsageError(
        `rows under /users belong to the user in the path; write ${parent.column} or leave it out`,
      )
    if (isBelowUsers) return parent
    return column === undefined ? undefined : readReference('users', column, cascades, known)
  })
  const fixed = [...new Set([parent, owner])].flatMap((each) => each ?? [])
  const given: ReadFields = table
    ? { fields: [...table.fields], names: table.fields.map((field) => field.name) }
    : readFields(answers.fields ?? '', (message) => report('fields', message))
  // Of an existing table, the columns of other options are no fields.
  const isOther = (each: string) =>
    table !== undefined &&
    (fixed.some(({ column }) => column === each) || (states !== undefined && each === 'status'))
  const fields: Field[] = [
    ...given.fields.filter((field) => !isOther(field.name)),
    ...(states ? [createStatus([...states.keys()])] : []),
  ]
  const related = fields.flatMap((field) =>
    field.type === 'ref'
      ? attempt('fields', [], () => {
          try {
            return [readReference(field.to, field.name, field.cascades, known)]
          } catch (error) {
            throw error instanceof UsageError ? new UsageError(`${field.name}: ${error.message}`) : error
          }
        })
      : [],
  )
  const references = [...fixed, ...related]
  const view = table?.view
  for (const { column } of view ? fixed : [])
    if (!given.fields.some(({ name: each, type }) => each === column && (type === 'uuid' || type === 'ref')))
      report(
        parent?.column === column ? 'parent' : 'owner',
        `the view has no column "${column}" of the type uuid`,
      )
  const names = [
    ...fixed.map(({ column }) => column),
    ...given.names.filter((each) => !isOther(each)),
    ...(states ? ['status'] : []),
  ]
  attempt('fields', undefined, () => checkColumns(names, references))
  if (names.length === 0) report('fields', 'write at least one field, for example --fields name:text')

  // Who may do what.
  const isWriting = access.paths.some((path) => path.isWriting) || (owner !== undefined && access.isWriting)
  if (view && isWriting && !isNone(answers.owner))
    report('owner', 'a view is only read; write :reads after the column or the path')
  const statesBy = answers['states-by'] ?? 'staff'
  if (statesBy !== 'staff' && (statesBy !== 'owner' || !isWriting))
    report('states-by', 'write staff, or owner if owners write')
  const ownConditions =
    access.conditions === undefined
      ? []
      : attempt('owner', [], () => readConditions(access.conditions ?? '', fields))
  const visible = read<ResourcePlan['visible']>('visible', [], (text) =>
    text === 'all' ? 'all' : readConditions(text, fields),
  )
  const creators = view ? [] : [...(isWriting ? ['member'] : []), ...staff, 'admin']
  const restrictions = read('restrict', [], (text) => readRestrictions(text, fields, creators))
  if (view && restrictions.some(({ write }) => write))
    report('restrict', 'a view is only read; leave out write=')
  const hidden = new Set(restrictions.flatMap((each) => (each.read ? [each.field] : [])))
  for (const { field } of [...ownConditions, ...(visible === 'all' ? [] : visible)])
    if (hidden.has(field))
      report('restrict', `${field}: it decides which rows members read, which would show it`)
  const unique = attempt('unique', [], () =>
    isNone(answers.unique) ? [...(table?.unique ?? [])] : readUnique(answers.unique, fields, references),
  )

  // The lists.
  const columns = fields.filter(({ isComputed }) => !isComputed)
  const select = (
    option: 'filters' | 'sorts' | 'search',
    isPossible: (field: Field) => boolean,
    isDefault: (field: Field) => boolean,
    others: readonly string[] = [],
  ): string[] => {
    const possible = columns.filter(isPossible).map((field) => field.name)
    const chosen = columns.filter((field) => isPossible(field) && isDefault(field)).map((field) => field.name)
    return answers[option] === undefined
      ? [...others, ...chosen]
      : read(option, [], (text) => readNames(text, [...others, ...possible]))
  }
  const ownerColumn = owner && owner !== parent ? [owner.column] : []
  const filters = select(
    'filters',
    ({ type }) => FILTERABLE.has(type),
    ({ type }) => FILTERED.has(type),
    ownerColumn,
  )
  // A time of day has no value below midnight, which could stand for null.
  const sorts = select(
    'sorts',
    ({ type, isNullable }) => SORTABLE.has(type) && !(type === 'time' && isNullable),
    isLimited,
  )
  for (const { name: each, type, column } of view ? columns : [])
    if (sorts.includes(each) && (type === 'text' || type === 'email') && column?.startsWith('pg.'))
      report('sorts', `${each}: it has the collation of the database; write ${each} collate "C" in the view`)
  // A search would find rows by what some callers may not read; rows that exist lack the text of searches.
  const isSearchable = table === undefined || view?.isSearched === true
  const search = select(
    'search',
    (field) => SEARCHABLE.has(field.type) && !hidden.has(field.name) && isSearchable,
    isShort,
  )
  const aggregates = read<ResourcePlan['aggregates']>('aggregates', undefined, (text) => {
    // Of all rows, an aggregate would show what some callers may not read.
    const open = columns.filter(({ name: each }) => !hidden.has(each))
    const list = (types: ReadonlySet<TypeName>) => [
      ...open.filter(({ type }) => types.has(type)).map((field) => field.name),
      ...COMMON_TIMES,
    ]
    const [measured, grouped] = [list(MEASURED), list(GROUPED)]
    const chosen = readNames(text, [...new Set([...measured, ...grouped])])
    return {
      measures: chosen.filter((each) => measured.includes(each)),
      groups: chosen.filter((each) => grouped.includes(each)),
    }
  })
  const actions = read('actions', [], (text) => {
    const wrong = split(text, ',').filter((each, i, all) => !isResourceName(each) || all.indexOf(each) !== i)
    if (wrong.length === 0) return split(text, ',')
    throw new UsageError(
      `"${wrong.join('", "')}" is not a name in kebab-case, as in refunds, or stands twice`,
    )
  })

  const ownName = toSnake(name)
  const sqlName = table?.sqlName ?? (isPackageTable(ownName) ? `own_${ownName}` : ownName)
  for (const suffix of [`${unique.join('_')}_unique`, ...fields.map((field) => `${field.name}_filter`)])
    if (!view && `${sqlName}_${suffix}`.length > MAX_IDENTIFIER_LENGTH)
      report(
        'name',
        `The name of an index would be "${sqlName}_${suffix}", longer than the ${MAX_IDENTIFIER_LENGTH} characters of PostgreSQL; choose shorter names`,
      )
  const plan: ResourcePlan = {
    ...{ name, singular, variable: toVariable(name), table: sqlName, description, fields, parent, owner },
    ...{ isOwnerWriting: access.isWriting, ownConditions, ownerPaths: access.paths, states },
    isStatusForStaff: states !== undefined && isWriting && statesBy === 'staff',
    ...{ visible, restrictions, unique, filters, sorts, search, actions, references, existing: table },
    ...{ aggregates, isRestorable: answers.isRestorable === true },
  }
  // A name that stands twice was reported.
  if (new Set(names).size === names.length)
    for (const message of findRepeatedNames(plan)) report('fields', message)
  return problems.length > 0 ? { problems } : { plan, problems }
}
