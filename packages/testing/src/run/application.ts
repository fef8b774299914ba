/** The tests of an application, in two processes that take about as long as each other. */
import { readdirSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { runFiles } from './run-files.ts'

/** What takes half of the time. */
const DOCUMENTS = 'documents.test.ts'

/** Runs the files of the folder `test`, from the folder of the application. @param documents whether that of the documents */
export async function runTests(documents: boolean): Promise<void> {
  const names = readdirSync('test').filter((name) => name.endsWith('.test.ts'))
  const chosen = names.filter((name) => (name === DOCUMENTS) === documents).sort()
  await runFiles(
    documents ? 'documents' : 'resources',
    chosen.map((name) => `test/${name}`),
    pathToFileURL(`${process.cwd()}/`),
  )
}
