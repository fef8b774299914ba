/** Checks the answers about a new resource against each other and against the service, and completes them. */
import { UsageError } from '../../src/cli/command.ts'
import { checkFieldName, type Field, readFields, split } from './fields.ts'
import { toCamel, toPascal, toSingular, toSnake, toWords } from './names.ts'
import type { Registered } from './registered.ts'
import { readStates, type States } from './states.ts'

/** The answers, by the names of the flags. An absent one takes its default. */
export interface Answers {
  name: string
  fields?: string
  parent?: string
  owner?: string
  states?: string
  'states-by'?: string
  public?: string
  unique?: string
  filters?: string
  sorts?: string
  search?: string
  singular?: string
  description?: string
}
export type Flag = keyof Answers

/** A column with a foreign key. */
export interface Reference {
  column: string
  to: Registered
  /** The export of `drizzle/tables.ts`. */
  table: string
  /** Whether rows are deleted with the row that they refer to. Otherwise that row cannot be deleted. */
  cascades: boolean
}

/** What the templates write. */
export interface ResourcePlan {
  /** `reviews` */
  name: string
  /** `Review` */
  singular: string
  /** `Reviews` */
  plural: string
  /** The table in code: `reviews`. */
  variable: string
  /** The table in SQL: `reviews`. */
  table: string
  description: string
  /** The fields that clients may send, and last the status if there are states. */
  fields: readonly Field[]
  parent: Reference | undefined
  /** The column of the user whose row it is. */
  owner: Reference | undefined
  states: States | undefined
  /** Whether members may not change the status of their own rows. */
  isStatusForStaff: boolean
  /** The rows of others that members may read: all, or those in these states. */
  public: 'all' | readonly string[]
  unique: readonly string[]
  filters: readonly string[]
  /** Besides `created_at` and `updated_at`. */
  sorts: readonly string[]
  search: readonly string[]
  references: readonly Reference[]
}

export interface Problem {
  flag: Flag
  message: string
}

/** The paths of the service that are not resources. */
const RESERVED_PATHS = new Set(
  'api docs openapi metrics livez readyz tokens events webhook-endpoints deliveries secrets constructor'.split(
    ' ',
  ),
)
const MAX_IDENTIFIER_LENGTH = 63
/** A trigram index of longer texts makes each change of a row expensive. */
const MAX_SEARCHED_LENGTH = 5_000

const SORTED_BY_DEFAULT = new Set<string>(['integer', 'money', 'date', 'timestamp'])
const SORTABLE = new Set<string>([...SORTED_BY_DEFAULT, 'text'])
const FILTERED_BY_DEFAULT = new Set<string>(['enum', 'ref'])
const FILTERABLE = new Set<string>([...FILTERED_BY_DEFAULT, 'text', 'currency'])
const SEARCHABLE = new Set<string>(['text', 'multiline'])

const isNone = (answer: string | undefined) => answer === undefined || answer === '' || answer === 'none'

function readList(flag: Flag, text: string, allowed: readonly string[]): string[] {
  const names = split(text, ',')
  const unknown = names.find((name) => !allowed.includes(name))
  if (unknown === undefined && new Set(names).size === names.length) return names
  const wrong = unknown === undefined ? 'a name stands twice' : `"${unknown}" is not possible`
  throw new UsageError(`--${flag}: ${wrong}; choose from ${allowed.join(', ') || 'none'}`)
}

function readReference(
  flag: Flag,
  name: string,
  column: string,
  cascades: boolean,
  registered: readonly Registered[],
): Reference {
  const to = registered.find((resource) => resource.name === name)
  const known = registered.filter(({ table }) => table).map((resource) => resource.name)
  if (to?.table) return { column, to, table: to.table, cascades }
  throw new UsageError(
    `--${flag}: there is no resource "${name}" to refer to; choose from ${known.join(', ')}`,
  )
}

function checkName(name: string, registered: readonly Registered[]): void {
  if (!/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name) || /^v\d+$/.test(name)) {
    throw new UsageError(
      `"${name}" is not the name of a collection; write a plural noun in kebab-case, as in order-notes`,
    )
  }
  if (registered.some((resource) => resource.name === name)) {
    throw new UsageError(`There is a resource "${name}" already`)
  }
  if (RESERVED_PATHS.has(name)) throw new UsageError(`The path /${name} is reserved; choose another name`)
}

function readSingular(name: string, given: string | undefined, registered: readonly Registered[]): string {
  const singular = given ?? toSingular(name)
  if (singular === undefined || singular === toPascal(name)) {
    throw new UsageError(`--singular is required: the singular of "${name}" in PascalCase, as in Person`)
  }
  if (!/^[A-Z][A-Za-z0-9]*$/.test(singular)) {
    throw new UsageError(`--singular: "${singular}" is not in PascalCase; write it as in UserProfile`)
  }
  if (registered.some((resource) => resource.singular === singular || resource.plural === singular)) {
    throw new UsageError(`--singular: another resource is called "${singular}"`)
  }
  return singular
}

function readParent(name: string, registered: readonly Registered[]): Reference {
  const found = registered.find((resource) => resource.name === name)
  const column = `${toSnake(found?.singular ?? name)}_id`
  const parent = readReference('parent', name, column, true, registered)
  if (parent.to.isNested) {
    throw new UsageError(`--parent: "${name}" has a parent itself; a path has one parent at most`)
  }
  return parent
}

function readOwner(
  text: string | undefined,
  parent: Reference | undefined,
  registered: readonly Registered[],
) {
  if (parent?.to.name === 'users') {
    if (text !== undefined && text !== parent.column) {
      throw new UsageError(
        `--owner: rows under /users belong to the user in the path; write ${parent.column} or leave it out`,
      )
    }
    return parent
  }
  if (text === undefined || isNone(text)) return undefined
  checkFieldName(text)
  if (!text.endsWith('_id'))
    throw new UsageError('--owner: the name of the column ends with _id, as in user_id')
  return readReference('owner', 'users', text, true, registered)
}

function readPublic(text: string | undefined, states: States | undefined): 'all' | string[] {
  if (text === 'all') return 'all'
  if (text === undefined || isNone(text)) return []
  if (!states) throw new UsageError(`--public: without --states, write all or none`)
  return readList('public', text, [...states.keys()])
}

function checkColumns(columns: readonly string[], relations: readonly string[]): void {
  const twice = columns.find((name, i) => columns.indexOf(name) < i)
  if (twice !== undefined)
    throw new UsageError(`The field "${twice}" stands twice, in --fields or as a column of another flag`)
  const relation = relations.find((name) => columns.includes(name))
  if (relation !== undefined) {
    throw new UsageError(`--fields: "${relation}" is the name of a relation already; choose another`)
  }
}

/** A test creates rows with different values of the key, so one of its fields must have many. */
function readUnique(text: string, fields: readonly Field[], references: readonly Reference[]): string[] {
  const columns = references.map(({ column }) => column)
  const possible = fields.filter(({ isNullable }) => !isNullable)
  const unique = readList('unique', text, [
    ...new Set(
      [...columns, ...possible.map(({ name }) => name)].filter(
        (name) => !fields.some((field) => field.name === name && field.isNullable),
      ),
    ),
  ])
  const hasManyValues = (name: string) =>
    columns.includes(name) ||
    possible.some((field) => field.name === name && !['boolean', 'enum', 'currency'].includes(field.type))
  if (unique.length > 0 && !unique.some(hasManyValues)) {
    throw new UsageError(`--unique: ${unique.join(' and ')} have too few values to be a key`)
  }
  return unique
}

/** Returns the plan, or the problems of the answers, all of them. */
export function buildPlan(
  answers: Answers,
  registered: readonly Registered[],
): { plan?: ResourcePlan; problems: Problem[] } {
  const problems: Problem[] = []
  /** Runs one check; other checks go on with `fallback`. */
  const attempt = <T>(flag: Flag, fallback: T, work: () => T): T => {
    try {
      return work()
    } catch (error) {
      if (!(error instanceof UsageError)) throw error
      problems.push({ flag, message: error.message })
      return fallback
    }
  }
  const { name } = answers
  attempt('name', undefined, () => checkName(name, registered))
  const singular = attempt('singular', 'Singular', () => readSingular(name, answers.singular, registered))
  const states = isNone(answers.states)
    ? undefined
    : attempt('states', undefined, () => readStates(answers.states ?? ''))
  const sent = attempt('fields', [], () => readFields(answers.fields ?? ''))
  const [initial = ''] = states?.keys() ?? []
  const status: Field[] = states
    ? [
        {
          name: 'status',
          type: 'enum',
          values: [...states.keys()],
          default: initial,
          isNullable: false,
          isImmutable: false,
        },
      ]
    : []
  const fields = [...sent, ...status]
  const parent = isNone(answers.parent)
    ? undefined
    : attempt('parent', undefined, () => readParent(answers.parent ?? '', registered))
  const owner = attempt('owner', undefined, () => readOwner(answers.owner, parent, registered))
  const related = attempt('fields', [], () =>
    fields.flatMap((field) =>
      field.type === 'ref' ? [readReference('fields', field.to, field.name, field.cascades, registered)] : [],
    ),
  )
  const references = [...new Set([parent, owner])].flatMap((each) => (each ? [each] : [])).concat(related)
  const fixed = references.filter((each) => each === parent || each === owner).map(({ column }) => column)
  attempt('fields', undefined, () => {
    checkColumns(
      [...fixed, ...fields.map((field) => field.name)],
      references.map(({ column }) => column.replace(/_id$/, '')),
    )
    if (fields.every(({ isImmutable }) => isImmutable)) {
      throw new UsageError('--fields: name at least one field that can be changed, for example name:text')
    }
  })
  const statesBy = answers['states-by'] ?? 'staff'
  attempt('states-by', undefined, () => {
    if (statesBy !== 'staff' && statesBy !== 'owner')
      throw new UsageError('--states-by: write staff or owner')
  })
  const select = (
    flag: 'filters' | 'sorts' | 'search',
    types: Set<string>,
    defaults: (field: Field) => boolean,
    others: string[] = [],
  ) =>
    attempt(flag, [], () => {
      const text = answers[flag]
      if (text === undefined) return [...others, ...fields.filter(defaults).map((field) => field.name)]
      const allowed = fields.filter(({ type }) => types.has(type)).map((field) => field.name)
      return isNone(text) ? [] : readList(flag, text, [...others, ...allowed])
    })
  const filtered = fixed.filter((column) => column !== parent?.column)
  const plan: ResourcePlan = {
    name,
    singular,
    plural: toPascal(name),
    variable: toCamel(name),
    table: toSnake(name),
    description: answers.description ?? `${toPascal(name).charAt(0)}${toWords(name).slice(1)}`,
    fields,
    parent,
    owner,
    states,
    isStatusForStaff: states !== undefined && owner !== undefined && statesBy === 'staff',
    public: attempt('public', [], () => readPublic(answers.public, states)),
    unique: attempt('unique', [], () =>
      readUnique(isNone(answers.unique) ? '' : (answers.unique ?? ''), fields, references),
    ),
    filters: select('filters', FILTERABLE, ({ type }) => FILTERED_BY_DEFAULT.has(type), filtered),
    sorts: select('sorts', SORTABLE, ({ type, isNullable }) => SORTED_BY_DEFAULT.has(type) && !isNullable),
    search: select(
      'search',
      SEARCHABLE,
      (field) => (field.type === 'text' || field.type === 'multiline') && field.max <= MAX_SEARCHED_LENGTH,
    ),
    references,
  }
  attempt('description', undefined, () => {
    if (!/^[^\p{Cc}]{1,200}$/u.test(plan.description) || plan.description.includes('*/')) {
      throw new UsageError('--description: write one line of at most 200 characters, without "*/"')
    }
  })
  attempt('name', undefined, () => {
    const longest = `${plan.table}_${[plan.unique.join('_'), ...fields.map((field) => field.name)].sort((a, b) => b.length - a.length)[0]}_unique`
    if (longest.length > MAX_IDENTIFIER_LENGTH) {
      throw new UsageError(
        `The name of an index would be "${longest}", longer than the ${MAX_IDENTIFIER_LENGTH} characters of PostgreSQL; choose shorter names`,
      )
    }
  })
  return problems.length > 0 ? { problems } : { plan, problems }
}
