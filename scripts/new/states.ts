/** Parses the states of a new resource: `pending>published>hidden` or `draft>published,archived; published>draft`. */
import { UsageError } from '../../src/cli/usage-error.ts'
import { SNAKE_CASE } from './fields.ts'

/** The states in the order in which they are named, each with those that may follow it. The first is the initial one. */
export type States = ReadonlyMap<string, readonly string[]>

/** @throws UsageError */
export function readStates(text: string): States {
  const states = new Map<string, string[]>()
  const getFollowing = (state: string): string[] => {
    if (!SNAKE_CASE.test(state)) {
      throw new UsageError(
        `--states: "${state}" is not a state; write snake_case names, for example "draft>published"`,
      )
    }
    const following = states.get(state) ?? []
    states.set(state, following)
    return following
  }
  for (const chain of text.split(';').filter((part) => part.trim() !== '')) {
    const steps = chain.split('>').map((step) => step.split(',').map((state) => state.trim()))
    for (const [i, step] of steps.entries()) {
      for (const from of step) {
        const following = getFollowing(from)
        for (const to of steps[i + 1] ?? []) {
          getFollowing(to)
          if (to !== from && !following.includes(to)) following.push(to)
        }
      }
    }
  }
  if (states.size < 2)
    throw new UsageError('--states: name two or more states, for example "draft>published"')
  return states
}

/** Returns the states on the shortest way to one of the targets, without the initial state; undefined if none leads there. */
export function findWay(states: States, targets: (state: string) => boolean): string[] | undefined {
  const [initial] = states.keys()
  if (initial === undefined) return undefined
  const ways: { state: string; way: string[] }[] = [{ state: initial, way: [] }]
  const seen = new Set([initial])
  // The loop also visits the ways that it appends.
  for (const { state, way } of ways) {
    if (targets(state)) return way
    for (const next of states.get(state) ?? []) {
      if (seen.has(next)) continue
      seen.add(next)
      ways.push({ state: next, way: [...way, next] })
    }
  }
  return undefined
}
