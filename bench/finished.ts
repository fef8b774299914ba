/** What a run came to, as the file that it leaves. */
import type { Measured } from './measure.ts'
import type { Results } from './report.ts'

export interface Finished {
  /** Where and how it was measured. */
  facts: string
  results: Results
}

/** The same in JSON. */
interface Kept {
  facts: string
  /** By workload, then by target, round by round. */
  figures: Record<string, Record<string, Measured[]>>
}

export function toJson({ facts, results }: Finished): string {
  const figures = [...results].map(([workload, measured]) => [workload, Object.fromEntries(measured)])
  return `${JSON.stringify({ facts, figures: Object.fromEntries(figures) }, null, 1)}\n`
}

export function fromJson(text: string): Finished {
  const { facts, figures }: Kept = JSON.parse(text)
  return {
    facts,
    results: new Map(
      Object.entries(figures).map(([workload, measured]) => [workload, new Map(Object.entries(measured))]),
    ),
  }
}
