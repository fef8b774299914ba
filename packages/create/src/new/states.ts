/** Parses the states of a new resource: `pending>published>hidden!` or `draft>published,archived!; published>draft`. */
import { UsageError } from '../usage-error.ts'
import { SNAKE_CASE } from './fields.ts'

/** The states in the order in which they are named, each with those that may follow it. The first is the initial one. */
export type States = ReadonlyMap<string, readonly string[]>

type Report = (message: string) => void

/** Reports the states that cannot be reached, and those that cannot be left although they are not marked as final. */
function checkWays(states: States, final: ReadonlySet<string>, report: Report): void {
  for (const [state, following] of states) {
    if (findWay(states, (each) => each === state) === undefined) {
      report(`"${state}" cannot be reached from "${[...states.keys()][0]}"`)
    }
    const isFinal = final.has(state)
    if (isFinal && following.length > 0)
      report(`"${state}!" is final, but ${following.join(', ')} follows it`)
    if (!isFinal && following.length === 0) {
      report(`"${state}" cannot be left; if that is meant, mark it as final: ${state}!`)
    }
  }
}

/**
 * Reads the states. `!` marks a final state.
 * @throws UsageError with all mistakes
 */
export function readStates(text: string): States {
  const states = new Map<string, string[]>()
  const final = new Set<string>()
  const mistakes = new Set<string>()
  const report: Report = (message) => mistakes.add(message)
  const readState = (marked: string): string => {
    const state = marked.replace(/!$/, '')
    if (state === '') report('a state is missing before or after ">" or ","')
    else if (!SNAKE_CASE.test(state)) {
      report(`"${state}" is not a state; write snake_case names, for example "draft>published!"`)
    }
    if (!states.has(state)) states.set(state, [])
    if (state !== marked) final.add(state)
    return state
  }
  for (const chain of text.split(';').filter((part) => part.trim() !== '')) {
    const steps = chain.split('>').map((step) => step.split(',').map((state) => readState(state.trim())))
    for (const [i, step] of steps.entries()) {
      for (const from of step) {
        const following = states.get(from) ?? []
        for (const to of steps[i + 1] ?? []) {
          if (to === from) report(`"${from}" follows itself`)
          else if (!following.includes(to)) following.push(to)
        }
      }
    }
  }
  if (mistakes.size === 0) {
    if (states.size < 2) report('name two or more states, for example "draft>published!"')
    else checkWays(states, final, report)
  }
  if (mistakes.size > 0) throw new UsageError([...mistakes].join('\n'))
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
