/** Checks the examples of bodies, which compiles their schemas: with 100 resources, that takes 0.5 s. */
import { verbs } from '@resource-api/api/rules'
import { compileSchema, toViolations } from '@resource-api/api/validation'
import type { ResourceDefinition } from '../definition/definition.ts'
import { buildBody, buildBodyExample } from '../request/body-schema.ts'

/** Returns the names of the schemas that a resource reads bodies by. */
export function listBodies({ verbs: own = verbs }: Pick<ResourceDefinition, 'verbs'>) {
  return [
    ...(own.includes('create') ? ['create' as const] : []),
    ...(own.includes('update') || own.includes('replace') ? ['change' as const] : []),
  ]
}

function findExampleMistakes(definition: ResourceDefinition): string[] {
  return listBodies(definition).flatMap((name) => {
    const mode = name === 'create' ? 'create' : 'update'
    const validate = compileSchema(buildBody(definition, mode))
    const examples: unknown[] = definition.schemas[name].examples ?? [buildBodyExample(definition, mode)]
    return examples.flatMap((example) => {
      if (validate(example)) return []
      const wrong = toViolations(validate.errors ?? []).map(({ field, message }) => `"${field}" ${message}`)
      return [`${definition.name}: the example of the schema "${name}" is not valid: ${wrong.join(', ')}`]
    })
  })
}

/** @throws Error with all examples that do not fit their schema, one on each line */
export function checkExamples(definitions: readonly ResourceDefinition[]): void {
  const mistakes = definitions.flatMap(findExampleMistakes)
  if (mistakes.length > 0) throw new Error(mistakes.join('\n'))
}
