/** `npm run bench:results -- folder...`: writes RESULTS.md and results.svg from the results.json of several runs. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { NOTES } from './notes.ts'
import { createPlot } from './plot.ts'
import { createGoalTable, createSections, LEGEND } from './report.ts'
import { parseResults } from './results-json.ts'

const INTRODUCTION = `The CPU time of a request to this service, with authentication, access rules, limits, validation, conditional headers and envelopes enabled, compared with hand-written servers and with other frameworks. [README.md](README.md) describes the method, the workloads and the targets. The runs were made one after the other, each with the command shown.`

const toPath = (name: string) => fileURLToPath(new URL(name, import.meta.url))

const runs = process.argv
  .slice(2)
  .map((folder) => parseResults(readFileSync(join(folder, 'results.json'), 'utf8')))
const [first] = runs
if (!first) throw new Error('Name the --out folders of the runs; the first must have all targets')

const page = [
  '# Results',
  INTRODUCTION,
  LEGEND,
  ...runs.flatMap(({ facts, results }, i) => [`## Run ${i + 1}`, facts.trim(), createGoalTable(results)]),
  NOTES,
  '# All targets in run 1',
  '![CPU time per request](results.svg)',
  ...createSections(first.results).map((section) => section.trim()),
]
writeFileSync(toPath('RESULTS.md'), `${page.join('\n\n')}\n`)
writeFileSync(toPath('results.svg'), createPlot(first.results))
