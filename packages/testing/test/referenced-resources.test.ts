/** Examples refer to rows of the resource that a foreign key has, whatever its name is. */
import t from 'tap'
import { buildLibrary } from '../library/index.ts'
import { readDefinitions, toDefinition } from '../src/definitions.ts'
import { findReferenced } from '../src/example-rows.ts'
import { testApp } from '../src/index.ts'

t.test('a foreign key decides on the resource of a field before the name of the field', async (t) => {
  const { app } = await testApp(t, buildLibrary)
  const library = app.resources.map(toDefinition)
  const [shelf] = library.filter(({ name }) => name === 'shelves')
  if (!shelf) throw new Error('no shelves')
  // As an application may have events besides those of the packages.
  const definitions = readDefinitions([{ ...shelf, name: 'volumes', singular: 'Book' }, ...library])
  const find = (of: string) => findReferenced(definitions, 'book_id', definitions.getDefinition(of))?.name
  t.equal(find('loans'), 'books')
  t.equal(find('shelves'), 'volumes', 'without a key, by the name')
})
