/** Rules that decide which rows of a collection a caller may list or change. */
import { type Actor, type CallerRole, NO_USER_ID } from '../actor/actor.ts'

export const verbs = ['list', 'read', 'create', 'replace', 'update', 'remove'] as const
export type Verb = (typeof verbs)[number]

/** Placeholder in a condition for the caller's own ID. */
export const CALLER: unique symbol = Symbol('the caller')

/** Placeholder at the end of a path for any value but NULL. */
export const NOT_NULL: unique symbol = Symbol('not null')

/**
 * The values that fields of a row must have, all of them. A name with dots is a path: relations, and a column of the last
 * one. It holds if there are related rows with the value; paths that begin with the same relations mean the same rows.
 */
export type Condition = Readonly<Record<string, string | number | boolean | typeof CALLER | typeof NOT_NULL>>

/** Every row, no row, or the rows that meet at least one of the conditions. */
export type Rule<C = Condition> = boolean | readonly C[]

/** The rule of each role; a missing rule permits nothing. */
export type RoleRules<C = Condition> = Readonly<Partial<Record<CallerRole, Rule<C>>>>

/** The rules of each verb; without rules, it is permitted to no role. */
export type Access<C = Condition> = Readonly<Partial<Record<Verb, RoleRules<C>>>>

/** Returns the same rules for lists and for reads of one row. */
export const toReads = <const Rules>(rules: Rules) => ({ list: rules, read: rules })

/** Returns the same rules for all writes. */
export const toWrites = <const Rules>(rules: Rules) => ({
  create: rules,
  replace: rules,
  update: rules,
  remove: rules,
})

/** Returns the rule for a caller. */
export const getRule = (access: Access, verb: Verb, actor: Actor): Rule => access[verb]?.[actor.role] ?? false

/** Returns the part of a rule that remains when the value of one field is known, for a simpler WHERE clause. */
export function narrowRule(rule: Rule, field: string, value: unknown, actor: Actor): Rule {
  if (typeof rule === 'boolean') return rule
  const remaining = rule.flatMap((condition) => {
    const { [field]: required, ...others } = condition
    if (required === undefined) return [condition]
    return (required === CALLER ? actor.userId : required) === value ? [others] : []
  })
  if (remaining.some((condition) => Object.keys(condition).length === 0)) return true
  return remaining.length > 0 && remaining
}

/** Returns a value of a condition as text, for people. */
export const formatWanted = (wanted: Condition[string]): string =>
  typeof wanted === 'symbol' ? (wanted.description ?? '') : String(wanted)

/** Returns a rule as text, which distinguishes prepared statements. */
export const formatRule = (rule: Rule): string =>
  typeof rule === 'boolean'
    ? String(rule)
    : rule
        .map((each) => Object.entries(each).map(([field, value]) => `${field}=${String(value)}`))
        .join(' or ')

/** Returns whether the name in a condition is a path over relations. */
export const isPath = (name: string): boolean => name.includes('.')

/** Returns whether a rule depends on other rows than the one that it is about. */
export const hasPaths = (rule: Rule): boolean =>
  typeof rule !== 'boolean' && rule.some((condition) => Object.keys(condition).some(isPath))

/** Returns the part of a rule that a row does not decide: conditions with paths alone. */
export function narrowByRow(rule: Rule, row: Readonly<Record<string, unknown>>, actor: Actor): Rule {
  if (typeof rule === 'boolean' || !hasPaths(rule)) return allows(rule, row, actor)
  const open: Condition[] = []
  for (const condition of rule) {
    const entries = Object.entries(condition)
    const paths = entries.filter(([name]) => isPath(name))
    const columns = Object.fromEntries(entries.filter(([name]) => !isPath(name)))
    const needsCaller = paths.some(([, value]) => value === CALLER)
    if ((needsCaller && actor.userId === NO_USER_ID) || !allows([columns], row, actor)) continue
    if (paths.length === 0) return true
    open.push(Object.fromEntries(paths))
  }
  return open.length > 0 && open
}

/** Returns whether a rule without paths permits access to a row. */
export const allows = (rule: Rule, row: Readonly<Record<string, unknown>>, actor: Actor): boolean =>
  typeof rule === 'boolean'
    ? rule
    : rule.some((condition) =>
        Object.entries(condition).every(([field, value]) =>
          value === CALLER
            ? actor.userId !== NO_USER_ID && row[field] === actor.userId
            : row[field] === value,
        ),
      )

/** Returns the names in the conditions of a rule. */
const getRuleNames = (rule: Rule): string[] =>
  typeof rule === 'boolean' ? [] : [...new Set(rule.flatMap((condition) => Object.keys(condition)))]

/** Returns the fields that the conditions of a rule compare. */
export const getRuleFields = (rule: Rule): string[] => getRuleNames(rule).filter((name) => !isPath(name))

/** Returns the paths in the conditions of a rule. */
export const getRulePaths = (rule: Rule): string[] => getRuleNames(rule).filter(isPath)
