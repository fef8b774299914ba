/** Checks a library whose built-in collections have other names. Run with another application: `declareApplication`. */
import '../../../src/application.ts'
import { getApplication } from '@resource-api/database/application'
import t from 'tap'
import { buildLibrary, libraryExamples, libraryPromises } from '../library/index.ts'
import { checkAccess, checkDocuments, checkExamples, checkRowAccess } from '../src/index.ts'

t.setTimeout(600_000)

// What the rules of the library say has a test of its own.
const about = 'the names of built-in collections'
const except = { books: about, loans: about, reviews: about }
const examples = new Map([...libraryExamples].filter(([name]) => !(name in except)))
const options = { except, examples }
const names = new Map(Object.entries(getApplication().names ?? {}))
const promises = Object.fromEntries(
  Object.entries(libraryPromises).map(([name, cells]) => [names.get(name) ?? name, cells]),
)

await checkAccess(t, buildLibrary, { ...options, promises })
await checkRowAccess(t, buildLibrary, { ...options, promises })
await checkExamples(t, buildLibrary, options)
await checkDocuments(t, buildLibrary, options)
