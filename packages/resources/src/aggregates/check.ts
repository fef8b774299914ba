/** Checks what a definition says of its aggregates, for what the compiler cannot see. */
import type { ResourceDefinition } from '../definition/definition.ts'
import { describeField } from './figures.ts'

export function* findAggregateMistakes(definition: ResourceDefinition): Generator<string> {
  const { access, aggregates, hasOwnReaders, operations, schemas } = definition
  if (!aggregates) return
  const { measures = [] } = aggregates
  if (Object.keys(access).length > 0 && !access.list)
    yield '`aggregates` are of the rows of a list, to which there is no access'
  if (hasOwnReaders) yield '`aggregates` requires the handlers of the engine'
  if ('aggregate' in operations)
    yield 'the action "aggregate" has the name of an operation; choose another one'
  for (const name of measures.filter((each) => each in schemas.read.properties)) {
    const { isNumeric, isTime } = describeField(definition, name)
    if (!isNumeric && !isTime) yield `measure "${name}" must be a number, a decimal, a date or a time`
  }
}
