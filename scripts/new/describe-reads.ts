/** Describes which rows of a new resource members read. */
import { toWords } from '../../packages/http/src/lib/to-words.ts'
import type { FieldCondition, ResourcePlan } from './resource-plan.ts'

const describeConditions = (conditions: readonly FieldCondition[]) =>
  conditions
    .map(({ field, value }, i) => (conditions[i - 1]?.field === field ? `${value}` : `${field} ${value}`))
    .join(' or ')

/** Returns what members read, by the rules that the command has written. */
export function describeReads({ name, owner, ownConditions, ownerPaths, visible }: ResourcePlan): string {
  const words = toWords(name)
  if (visible === 'all') return `all users' ${words}`
  const others = visible.length > 0 ? [`all users' ${words} with ${describeConditions(visible)}`] : []
  const limit = ownConditions.length > 0 ? ` with ${describeConditions(ownConditions)}` : ''
  const own = owner ? [`their own ${words}${limit}`] : []
  const paths = [...new Set(ownerPaths.map(({ path }) => `${words} whose ${path} is their id`))]
  return [...others, ...own, ...paths].join(', and ') || `no ${words}`
}
