/** `npm run bench:results -- folder...`: the runs that wrote into these folders, as one page with what there is to say. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { fromJson } from './finished.ts'
import { NOTES } from './notes.ts'
import { plot } from './plot.ts'
import { goals, LEGEND, sections } from './report.ts'

const INTRODUCTION = `What this service costs for a request, with authentication, access, limits, validation, conditional headers and envelopes all on, beside bare hand-written code and beside others. [README.md](README.md) says how it is measured, what the workloads are and what each target does; the commands stand with the runs, which were made one after the other.`

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url))

const runs = process.argv
  .slice(2)
  .map((folder) => fromJson(readFileSync(join(folder, 'results.json'), 'utf8')))
const [first] = runs
if (!first)
  throw new Error('Name the folders that runs were written to with --out, the one with all targets first')

const page = [
  '# Results',
  INTRODUCTION,
  LEGEND,
  ...runs.flatMap(({ facts, results }, i) => [`## Run ${i + 1}`, facts.trim(), goals(results)]),
  NOTES,
  '# Run 1 in full',
  '![CPU for a request](results.svg)',
  ...sections(first.results).map((section) => section.trim()),
]
writeFileSync(here('RESULTS.md'), `${page.join('\n\n')}\n`)
writeFileSync(here('results.svg'), plot(first.results))
