/** `npm run bench:results -- folder`: writes RESULTS.md and results.svg here from the results.json of a run. */
import { readRun, writeReport } from './report.ts'

const [folder] = process.argv.slice(2)
if (folder === undefined) throw new Error('Name the --out folder of the run')
writeReport(import.meta.dirname, readRun(folder))
