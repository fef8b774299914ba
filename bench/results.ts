/** `npm run bench:results -- folder...`: the runs that wrote into these folders, as one page with what there is to say. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { fromJson } from './finished.ts'
import { NOTES } from './notes.ts'
import { plot } from './plot.ts'
import { goals, LEGEND, sections } from './report.ts'

const INTRODUCTION = `The CPU time of a request to this service, with authentication, access rules, limits, validation, conditional headers and envelopes, compared with hand-written servers and with other projects. [README.md](README.md) explains the method, the workloads and the targets. The runs were made one after the other, each with the command shown.`

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
  '# All figures of run 1',
  '![CPU time of a request](results.svg)',
  ...sections(first.results).map((section) => section.trim()),
]
writeFileSync(here('RESULTS.md'), `${page.join('\n\n')}\n`)
writeFileSync(here('results.svg'), plot(first.results))
