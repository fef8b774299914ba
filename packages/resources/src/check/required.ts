/** Checks that every body of a creation can be written: a column that is NOT NULL without a default needs a value. */
import type { TSchema } from '@sinclair/typebox'
import type { Resource } from '../definition/resource.ts'
import { hasDefault } from '../request/body-schema.ts'

/** @param resource whose routes are registered: its own code may set what the body does not have */
export function* findUnsetFields({ code, columns, defaults, schemas }: Resource): Generator<string> {
  const { prepare, run, runAll } = code.create ?? {}
  if (defaults || prepare || run || runAll) return
  const { properties, required = [] } = schemas.create
  for (const [name, schema] of Object.entries<TSchema>(properties)) {
    const column = columns[name]
    if (!column?.notNull || column.hasDefault || column.generated) continue
    if (required.includes(name) || hasDefault(schema)) continue
    yield `"${name}" is optional in the schema "create", and its column is NOT NULL without a default: without Type.Optional it is required; or give it a \`default\` in the schema`
  }
}
