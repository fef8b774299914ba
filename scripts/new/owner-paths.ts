/** Reads the paths of `--owner`: `organization.memberships.user_id:writes(role=owner)`. */
import { UsageError } from '../../packages/http/src/commands/usage-error.ts'
import { split } from './fields.ts'
import { toSnake } from './names.ts'
import type { Registered } from './registered.ts'
import type { OwnerPath, Reference } from './resource-plan.ts'

const MAX_STEPS = 3

const FORM =
  'write RELATIONS.COLUMN:reads or RELATIONS.COLUMN:writes(FIELD=VALUES), as in organization.memberships.user_id:reads'

const PATH = /^([a-z0-9_]+(?:\.[a-z0-9_]+)+)(?::(writes|reads)(?:\(([^()]*)\))?)?$/

const splitOwner = (text = '') => split(text, ';')

const isPath = (entry: string) => /^[^:(]*\./.test(entry)

/** Returns the column of the owner, with what owners may do, from the text of `--owner`; undefined if it has only paths. */
export function getOwnerText(text: string | undefined): string | undefined {
  return splitOwner(text).find((entry) => !isPath(entry))
}

interface PathContext {
  /** The name of the new resource, which may be a relation of one that it refers to. */
  name: string
  references: readonly Reference[]
  /** The values of the enums of the new resource. */
  values: Readonly<Record<string, readonly string[]>>
  /** The columns of the new resource. */
  columns: readonly string[]
  registered: readonly Registered[]
}

type Target = Pick<Registered, 'name' | 'relations' | 'values'> & { columns: readonly string[] }

/** Returns the related resource after the steps. @throws UsageError for a step that is no relation */
function follow(path: string, steps: readonly string[], context: PathContext): Target {
  const { name, references, values, columns, registered } = context
  const own: Target = {
    name,
    values,
    columns,
    relations: Object.fromEntries(references.map(({ column, to }) => [column.replace(/_id$/, ''), to.name])),
  }
  return steps.reduce<Target>((source, step) => {
    // The command adds the relation to the resource that the new one refers to.
    const isAdded = step === toSnake(name) && references.some(({ to }) => to.name === source.name)
    const next = isAdded ? name : source.relations?.[step]
    const found = next === name ? own : registered.find((each) => each.name === next)
    if (found) return { ...found, columns: 'fields' in found ? found.fields : found.columns }
    const known = Object.keys(source.relations ?? {}).join(', ') || 'none'
    throw new UsageError(`${path}: "${step}" is no relation of ${source.name}; there are ${known}`)
  }, own)
}

/** Reads one path. @throws UsageError */
function readPath(entry: string, context: PathContext): OwnerPath {
  const [, path, access = 'writes', conditions] = PATH.exec(entry) ?? []
  if (path === undefined) throw new UsageError(`"${entry}" is no path; ${FORM}`)
  const steps = path.split('.')
  const column = steps.pop() ?? ''
  if (steps.length > MAX_STEPS) throw new UsageError(`${path}: a path has at most ${MAX_STEPS} relations`)
  const target = follow(path, steps, context)
  if (!target.columns.includes(column) || !/(?:^|_)id$/.test(column)) {
    const ids = target.columns.filter((each) => /(?:^|_)id$/.test(each)).join(', ')
    throw new UsageError(`${path}: "${column}" is no id of a user in ${target.name}; choose from ${ids}`)
  }
  const alternatives = split(conditions ?? '', ';').flatMap((condition) => {
    const [field = '', list = '', another] = condition.split('=').map((part) => part.trim())
    const possible = target.values?.[field] ?? []
    const wanted = split(list, ',')
    const unknown = wanted.filter((value) => !possible.includes(value))
    if (another === undefined && wanted.length > 0 && unknown.length === 0)
      return wanted.map((value) => ({ field, value }))
    const enums = Object.entries(target.values ?? {}).map(([each, states]) => `${each}=${states.join(',')}`)
    throw new UsageError(
      `${path}: "${condition}" is no condition on ${target.name}; choose from ${enums.join('; ') || 'none'}`,
    )
  })
  if (conditions !== undefined && alternatives.length === 0)
    throw new UsageError(`${path}: there is no condition; ${FORM}`)
  return { path, isWriting: access === 'writes', conditions: alternatives, target: target.name }
}

/** @throws UsageError with all mistakes */
export function readOwnerPaths(text: string | undefined, context: PathContext): OwnerPath[] {
  const mistakes: string[] = []
  const columns = splitOwner(text).filter((entry) => !isPath(entry))
  if (columns.length > 1) mistakes.push(`write one column at most, not ${columns.join(' and ')}`)
  const paths = splitOwner(text)
    .filter(isPath)
    .flatMap((entry) => {
      try {
        return [readPath(entry, context)]
      } catch (error) {
        if (!(error instanceof UsageError)) throw error
        mistakes.push(error.message)
        return []
      }
    })
  if (mistakes.length > 0) throw new UsageError(mistakes.join('\n'))
  return paths
}
