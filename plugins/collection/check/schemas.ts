/** Finds fields that no row has, schemas without a title, and examples that do not fit their schema. */
import { getTableColumns } from 'drizzle-orm'
import { verbs } from '../../access/index.ts'
import { toViolations } from '../../errors/violations.ts'
import { compileSchema } from '../../validation/formats.ts'
import type { Mode, ResourceDefinition } from '../definition.ts'
import { buildBody, buildBodyExample } from '../request/body-schema.ts'

/** The schemas that a resource uses: one for reading, and those of the bodies that it accepts. */
function getUsedSchemas({ verbs: own = verbs }: ResourceDefinition) {
  const isChanged = own.includes('update') || own.includes('replace')
  return [
    'read' as const,
    ...(own.includes('create') ? ['create' as const] : []),
    ...(isChanged ? ['change' as const] : []),
  ]
}

function findExampleMistakes(definition: ResourceDefinition, schema: 'create' | 'change'): string[] {
  const input = definition.schemas[schema]
  const mode: Mode = schema === 'create' ? 'create' : 'update'
  // The same schema as the request's: it is compiled once.
  const validate = compileSchema(buildBody(definition, mode))
  const examples: unknown[] = input.examples ?? [buildBodyExample(definition, mode)]
  return examples.flatMap((example) => {
    if (validate(example)) return []
    const violations = toViolations(validate.errors ?? []).map(
      ({ field, message }) => `"${field}" ${message}`,
    )
    return [`the example of the schema "${schema}" is not valid: ${violations.join(', ')}`]
  })
}

/** Returns the mistakes in the schemas of a definition. */
export function findSchemaMistakes(definition: ResourceDefinition): string[] {
  const { schemas, table, computed } = definition
  const columns = getTableColumns(table)
  const used = getUsedSchemas(definition)
  return [
    ...Object.keys(schemas.read.properties)
      .filter((name) => !computed && !(name in columns))
      .map((name) => `field "${name}" has neither a column nor a value from \`computed\``),
    ...used
      .filter((name) => !schemas[name].title)
      .map((name) => `the schema "${name}" has no title, which names its type in generated clients`),
    ...used.flatMap((name) => (name === 'read' ? [] : findExampleMistakes(definition, name))),
  ]
}
