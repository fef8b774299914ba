/** Checks the answers about a new resource against each other and against the service, and completes them. */
import { toWords } from '../../lib/to-words.ts'
import { UsageError } from '../../src/cli/usage-error.ts'
import {
  checkChangeable,
  checkColumns,
  checkDescription,
  checkIndexNames,
  checkName,
  checkStatesBy,
  isNone,
  readList,
  readOperations,
  readOwner,
  readParent,
  readPublic,
  readReference,
  readSingular,
  readUnique,
} from './checks.ts'
import { type Field, readFields } from './fields.ts'
import { toCamel, toPascal, toSnake } from './names.ts'
import type { Registered } from './registered.ts'
import type { Answers, Flag, Problem, ResourcePlan } from './resource-plan.ts'
import { readStates, type States } from './states.ts'

/** A trigram index of longer texts makes each change of a row expensive. */
const MAX_SEARCHED_LENGTH = 5_000

const SORTED_BY_DEFAULT = new Set<string>(['integer', 'money', 'date', 'timestamp'])
const SORTABLE = new Set<string>([...SORTED_BY_DEFAULT, 'text'])
const FILTERED_BY_DEFAULT = new Set<string>(['enum', 'ref', 'boolean'])
const FILTERABLE = new Set<string>([...FILTERED_BY_DEFAULT, 'text', 'currency', 'integer'])
const SEARCHABLE = new Set<string>(['text', 'multiline'])

/** Runs one check; others go on with `fallback`, so that all problems are found. */
type Attempt = <T>(flag: Flag, fallback: T, work: () => T) => T

const createAttempt =
  (problems: Problem[]): Attempt =>
  (flag, fallback, work) => {
    try {
      return work()
    } catch (error) {
      if (!(error instanceof UsageError)) throw error
      problems.push({ flag, message: error.message })
      return fallback
    }
  }

const createStatus = (states: States): Field => {
  const values = [...states.keys()]
  const [initial = ''] = values
  return { name: 'status', type: 'enum', values, default: initial, isNullable: false, isImmutable: false }
}

/** Reads the columns of the table: the parent, the owner, the fields and the status. */
function readColumns(answers: Answers, registered: readonly Registered[], attempt: Attempt) {
  const read = <T>(flag: 'states' | 'parent', work: (text: string) => T): T | undefined => {
    const text = answers[flag]
    return text === undefined || isNone(text) ? undefined : attempt(flag, undefined, () => work(text))
  }
  const states = read('states', readStates)
  const parent = read('parent', (text) => readParent(text, registered))
  const owner = attempt('owner', undefined, () => readOwner(answers.owner, parent, registered))
  const fixed = [...new Set([parent, owner])].flatMap((each) => (each ? [each] : []))
  return attempt('fields', undefined, () => {
    const fields = [...readFields(answers.fields ?? ''), ...(states ? [createStatus(states)] : [])]
    const related = fields.flatMap((field) =>
      field.type === 'ref' ? [readReference('fields', field.to, field.name, field.cascades, registered)] : [],
    )
    const references = [...fixed, ...related]
    checkColumns([...fixed.map(({ column }) => column), ...fields.map(({ name }) => name)], references)
    checkChangeable(fields)
    return { fields, states, parent, owner, references }
  })
}

type Columns = NonNullable<ReturnType<typeof readColumns>>

/** Reads the fields that lists can be filtered and sorted by, and searched in. */
function readLists(answers: Answers, { fields, parent, owner }: Columns, attempt: Attempt) {
  const select = (
    flag: 'filters' | 'sorts' | 'search',
    types: Set<string>,
    isDefault: (field: Field) => boolean,
    others: string[] = [],
  ) =>
    attempt(flag, [], () => {
      const text = answers[flag]
      if (text === undefined) return [...others, ...fields.filter(isDefault).map(({ name }) => name)]
      const allowed = fields.filter(({ type }) => types.has(type)).map(({ name }) => name)
      return isNone(text) ? [] : readList(flag, text, [...others, ...allowed])
    })
  const isShort = (field: Field) =>
    (field.type === 'text' || field.type === 'multiline') && field.max <= MAX_SEARCHED_LENGTH
  const ownerColumn = owner && owner !== parent ? [owner.column] : []
  return {
    filters: select('filters', FILTERABLE, ({ type }) => FILTERED_BY_DEFAULT.has(type), ownerColumn),
    sorts: select('sorts', SORTABLE, ({ type, isNullable }) => SORTED_BY_DEFAULT.has(type) && !isNullable),
    search: select('search', SEARCHABLE, isShort),
  }
}

/** Returns the plan, or the problems of the answers. Lists of fields are checked once the fields have no problem. */
export function buildPlan(
  answers: Answers,
  registered: readonly Registered[],
): { plan?: ResourcePlan; problems: Problem[] } {
  const problems: Problem[] = []
  const attempt = createAttempt(problems)
  const { name } = answers
  const description = answers.description ?? `${toPascal(name).charAt(0)}${toWords(name).slice(1)}`
  const statesBy = answers['states-by'] ?? 'staff'
  attempt('name', undefined, () => checkName(name, registered))
  attempt('states-by', undefined, () => checkStatesBy(statesBy))
  attempt('description', undefined, () => checkDescription(description))
  // The singular of a name that is wrong would be wrong too.
  const isNameRight = problems.every(({ flag }) => flag !== 'name')
  const singular = attempt('singular', '', () =>
    isNameRight ? readSingular(name, answers.singular, registered) : '',
  )
  const columns = readColumns(answers, registered, attempt)
  if (!columns) return { problems }
  const { states, owner, fields, references } = columns
  const plan: ResourcePlan = {
    name,
    singular,
    plural: toPascal(name),
    variable: toCamel(name),
    table: toSnake(name),
    description,
    ...columns,
    isStatusForStaff: states !== undefined && owner !== undefined && statesBy === 'staff',
    public: attempt('public', [], () => readPublic(answers.public, states)),
    unique: attempt('unique', [], () => readUnique(answers.unique, fields, references)),
    operations: attempt('operations', [], () => readOperations(answers.operations)),
    ...readLists(answers, columns, attempt),
  }
  attempt('name', undefined, () => checkIndexNames(plan))
  return problems.length > 0 ? { problems } : { plan, problems }
}
