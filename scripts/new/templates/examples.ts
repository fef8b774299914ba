/** The template of `test/{name}.examples.ts`. */
import { toWords } from '../../../packages/http/src/lib/to-words.ts'
import type { Field } from '../fields.ts'
import type { ResourcePlan } from '../resource-plan.ts'
import { importUsed, literal } from './code.ts'
import { getExample } from './values.ts'

/** Returns a value as code. Times differ from body to body, so that periods do not overlap; in a unique key, so do all. */
function writeValue(field: Field, isUnique: boolean): string {
  const example = literal(getExample(field) ?? '')
  if (field.type === 'ref') return 'exampleId'
  if (field.type === 'date') return `getDay(n, ${field.position})`
  if (field.type === 'timestamp') return `getTime(n, ${9 + field.position})`
  if (!isUnique) return example
  switch (field.type) {
    case 'text':
    case 'multiline':
      return `String(n).padStart(${field.min}, '0')`
    case 'integer':
    case 'money':
      return `${field.min} + n`
    case 'decimal':
      return field.scale === 0 ? 'String(n)' : `\`\${n}.${'0'.repeat(field.scale)}\``
    case 'email':
      return `\`user.\${n}@example.org\``
    case 'url':
      return `\`https://example.com/\${n}\``
    case 'uuid':
      return 'randomUUID()'
    default:
      return example
  }
}

export function writeExamples(plan: ResourcePlan): string {
  const { name, singular, unique } = plan
  const values = plan.fields
    .filter((field) => field.default === undefined && !field.isNullable)
    .map((field) => `${field.name}: ${writeValue(field, unique.includes(field.name))},`)
  const usesNumber = values.some((value) => /\bn\b/.test(value.slice(value.indexOf(':'))))
  const code = `
export default {
  create: (${usesNumber ? 'n' : ''}) => ({ ${values.join('\n')} }),
} satisfies Examples<typeof ${singular}Create>
`
  return `/** Valid bodies of ${toWords(name)}, for the tests of all resources: adapt them to the rules that you add. */
${importUsed(['randomUUID'], 'node:crypto', code)}import type { ${singular}Create } from '../schemas/${name}.ts'
${importUsed(['exampleId'], '@resource-api/http/schemas', code)}${importUsed(['type Examples', 'getDay', 'getTime'], '@resource-api/testing', code)}${code}`
}
