/** Serializes the measurements of a run to results.json and parses them. */
import type { Measurement } from './measure.ts'
import type { Results } from './report.ts'

export interface RunResults {
  /** The machine, the versions and the options of the run, in Markdown. */
  facts: string
  results: Results
}

/** The content of results.json. */
interface ResultsJson {
  facts: string
  /** The rounds, by workload and target. */
  figures: Record<string, Record<string, Measurement[]>>
}

export function serializeResults({ facts, results }: RunResults): string {
  const figures = [...results].map(([workload, rounds]) => [workload, Object.fromEntries(rounds)])
  return `${JSON.stringify({ facts, figures: Object.fromEntries(figures) }, null, 1)}\n`
}

export function parseResults(text: string): RunResults {
  const { facts, figures }: ResultsJson = JSON.parse(text)
  return {
    facts,
    results: new Map(
      Object.entries(figures).map(([workload, rounds]) => [workload, new Map(Object.entries(rounds))]),
    ),
  }
}
