/** Checks the answers about a new resource against each other and against the service, and completes them. */

import { UsageError } from '../../packages/http/src/commands/usage-error.ts'
import { toWords } from '../../packages/http/src/lib/to-words.ts'
import {
  checkChangeable,
  checkColumns,
  checkDescription,
  checkIndexNames,
  checkName,
  checkStatesBy,
  isNone,
  readActions,
  readList,
  readOnDelete,
  readOwnConditions,
  readOwner,
  readParent,
  readReference,
  readSingular,
  readUnique,
  readVisible,
} from './checks.ts'
import { type Field, readFields, split } from './fields.ts'
import { toCamel, toPascal, toSnake } from './names.ts'
import { getOwnerText, readOwnerPaths } from './owner-paths.ts'
import type { Registered } from './registered.ts'
import type { Answers, Flag, Problem, ResourcePlan, Restriction } from './resource-plan.ts'
import { readRestrictions } from './restrictions.ts'
import { readStates, type States } from './states.ts'

/** A trigram index of longer texts makes each change of a row expensive. */
const MAX_SEARCHED_LENGTH = 5_000

const SORTED_BY_DEFAULT = new Set<string>(['integer', 'money', 'decimal', 'date', 'time', 'timestamp'])
const SORTABLE = new Set<string>([...SORTED_BY_DEFAULT, 'text', 'email'])
const FILTERED_BY_DEFAULT = new Set<string>(['enum', 'ref', 'boolean', 'email', 'uuid'])
const FILTERABLE = new Set<string>([...FILTERED_BY_DEFAULT, 'text', 'currency', 'integer', 'decimal', 'time'])
const SEARCHABLE = new Set<string>(['text', 'multiline', 'email'])

/** A time of day has no value below midnight, which could stand for null. */
const isSortable = ({ type, isNullable }: Field) => SORTABLE.has(type) && !(type === 'time' && isNullable)

/** Returns the lists that a field is part of unless an answer says otherwise. */
export const getDefaultLists = (field: Field) => ({
  isFiltered: FILTERED_BY_DEFAULT.has(field.type),
  isSorted: SORTED_BY_DEFAULT.has(field.type) && !field.isNullable,
  isSearched:
    field.type === 'email' ||
    ((field.type === 'text' || field.type === 'multiline') && field.max <= MAX_SEARCHED_LENGTH),
})

/** Runs one check; others go on with `fallback`, so that all problems are found. */
type Attempt = <T>(flag: Flag, fallback: T, work: () => T) => T

const createAttempt =
  (problems: Problem[]): Attempt =>
  (flag, fallback, work) => {
    try {
      return work()
    } catch (error) {
      if (!(error instanceof UsageError)) throw error
      for (const message of error.message.split('\n')) problems.push(createProblem(flag, message))
      return fallback
    }
  }

/** A problem, whose message begins with its place. */
const createProblem = (flag: Flag, message: string): Problem => ({
  flag,
  message: flag === 'name' ? message : `--${flag}: ${message}`,
})

const createStatus = (states: States): Field => {
  const values = [...states.keys()]
  const [initial = ''] = values
  return {
    name: 'status',
    type: 'enum',
    values,
    default: initial,
    isNullable: false,
    isImmutable: false,
    position: 0,
  }
}

/**
 * Reads the columns of the table: the parent, the owner, the fields and the status. `known` has the names of fields with
 * mistakes too, so that other options may name them.
 */
function readColumns(
  answers: Answers,
  registered: readonly Registered[],
  problems: Problem[],
  attempt: Attempt,
) {
  const read = <T>(flag: 'states' | 'parent', work: (text: string) => T): T | undefined => {
    const text = answers[flag]
    return text === undefined || isNone(text) ? undefined : attempt(flag, undefined, () => work(text))
  }
  const ownerText = getOwnerText(answers.owner)
  const hasOwnerOrParent = !isNone(ownerText) || !isNone(answers.parent)
  const cascades = attempt('on-delete', false, () => readOnDelete(answers['on-delete'], hasOwnerOrParent))
  const states = read('states', readStates)
  const parent = read('parent', (text) => readParent(text, cascades, registered))
  const { owner, isOwnerWriting } = attempt('owner', { owner: undefined, isOwnerWriting: true }, () =>
    readOwner(ownerText, parent, cascades, registered),
  )
  const fixed = [...new Set([parent, owner])].flatMap((each) => (each ? [each] : []))
  const countBefore = problems.length
  const { fields: sent, names } = readFields(answers.fields ?? '', (message) =>
    problems.push(createProblem('fields', message)),
  )
  const isRight = problems.length === countBefore
  const status = states ? [createStatus(states)] : []
  const fields = [...sent, ...status]
  const related = fields.flatMap((field) => {
    if (field.type !== 'ref') return []
    return attempt('fields', [], () => {
      try {
        return [readReference(field.to, field.name, field.cascades, registered)]
      } catch (error) {
        if (error instanceof UsageError)
          throw new UsageError(`${field.name}: ${error.message}`, { cause: error })
        throw error
      }
    })
  })
  const references = [...fixed, ...related]
  const known = [
    ...fixed.map(({ column }) => column),
    ...names,
    ...(isNone(answers.states) ? [] : ['status']),
  ]
  attempt('fields', undefined, () => checkColumns(known, references))
  if (isRight) attempt('fields', undefined, () => checkChangeable(sent))
  return { fields, states, parent, owner, isOwnerWriting, references, known }
}

type Columns = ReturnType<typeof readColumns>

/** Reads the fields that lists can be filtered and sorted by, and searched in. */
function readLists(
  answers: Answers,
  { fields, parent, owner, known }: Columns,
  restrictions: readonly Restriction[],
  attempt: Attempt,
) {
  // A search would find rows by what some callers may not read.
  const isHidden = ({ name }: Field) => restrictions.some((each) => each.field === name && each.read)
  const faulty = known.filter((name) => !fields.some((field) => field.name === name))
  const select = (
    flag: 'filters' | 'sorts' | 'search',
    isAllowed: (field: Field) => boolean,
    isDefault: (field: Field) => boolean,
    others: string[] = [],
  ) =>
    attempt(flag, [], () => {
      const text = answers[flag]
      if (text === undefined) return [...others, ...fields.filter(isDefault).map(({ name }) => name)]
      if (isNone(text)) return []
      const allowed = [...others, ...fields.filter(isAllowed).map(({ name }) => name)]
      const unknown = split(text, ',').filter((name) => !faulty.includes(name) || allowed.includes(name))
      return unknown.length > 0 ? readList(unknown.join(), allowed) : []
    })
  const ownerColumn = owner && owner !== parent ? [owner.column] : []
  return {
    filters: select(
      'filters',
      ({ type }) => FILTERABLE.has(type),
      (field) => getDefaultLists(field).isFiltered,
      ownerColumn,
    ),
    sorts: select('sorts', isSortable, (field) => getDefaultLists(field).isSorted),
    search: select(
      'search',
      (field) => SEARCHABLE.has(field.type) && !isHidden(field),
      (field) => getDefaultLists(field).isSearched && !isHidden(field),
    ),
  }
}

/** Returns the values of the enums. */
const getValues = (fields: readonly Field[]): Record<string, readonly string[]> =>
  Object.fromEntries(fields.flatMap((field) => (field.type === 'enum' ? [[field.name, field.values]] : [])))

/** Returns the plan, or the problems of all answers. */
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
  attempt('description', undefined, () => checkDescription(description))
  // The singular of a name that is wrong would be wrong too.
  const isNameRight = problems.every(({ flag }) => flag !== 'name')
  const singular = attempt('singular', '', () =>
    isNameRight ? readSingular(name, answers.singular, registered) : '',
  )
  const columns = readColumns(answers, registered, problems, attempt)
  const { states, owner, isOwnerWriting, fields, references, known } = columns
  const ownerPaths = attempt('owner', [], () =>
    readOwnerPaths(answers.owner, {
      name,
      references,
      columns: known,
      values: getValues(fields),
      registered,
    }),
  )
  attempt('states-by', undefined, () => checkStatesBy(statesBy, isOwnerWriting))
  const ownConditions = attempt('owner', [], () =>
    readOwnConditions(getOwnerText(answers.owner), fields, known),
  )
  const visible = attempt('visible', [], () => readVisible(answers.visible, fields, known))
  const compared = [...ownConditions, ...(visible === 'all' ? [] : visible)].map(({ field }) => field)
  const restrictions = attempt('restrict', [], () =>
    isNone(answers.restrict)
      ? []
      : readRestrictions(answers.restrict ?? '', {
          ...columns,
          ownerPaths,
          unique: split(answers.unique ?? '', ','),
          compared,
        }),
  )
  const plan: ResourcePlan = {
    name,
    singular,
    plural: toPascal(name),
    variable: toCamel(name),
    table: toSnake(name),
    description,
    ...columns,
    isStatusForStaff:
      states !== undefined &&
      ((owner !== undefined && isOwnerWriting) || ownerPaths.some(({ isWriting }) => isWriting)) &&
      statesBy === 'staff',
    ownConditions,
    ownerPaths,
    visible,
    restrictions,
    unique: attempt('unique', [], () => readUnique(answers.unique, fields, references, known)),
    actions: attempt('actions', [], () => readActions(answers.actions)),
    ...readLists(answers, columns, restrictions, attempt),
  }
  attempt('name', undefined, () => checkIndexNames(plan))
  return problems.length > 0 ? { problems } : { plan, problems }
}
