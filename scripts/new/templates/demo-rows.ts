/** The template of `src/cli/demo-data/{name}.ts`. */
import { toWords } from '../../../packages/http/src/lib/to-words.ts'
import type { Field } from '../fields.ts'
import { toCamel } from '../names.ts'
import type { Reference, ResourcePlan } from '../resource-plan.ts'
import { importUsed, list, literal } from './code.ts'
import { getExample } from './values.ts'

/** The length of a text with the seed and the index of a row. */
const MAX_KEY_LENGTH = 16
/** From so many numbers, random ones hardly repeat. */
const MIN_RANDOM_KEYS = 100_000_000

/** The largest number above the smallest one that the rows have. */
const MAX_SPREAD = 10_000

/**
 * Returns the value of a field as code. Values of a unique key differ from row to row, and times follow the creation of
 * the row, so that periods end after their start.
 */
export function writeDemoValue(field: Field, isUnique: boolean): string {
  const example = literal(getExample(field) ?? null)
  switch (field.type) {
    case 'text':
    case 'multiline':
      if (!isUnique) return example
      return field.max < MAX_KEY_LENGTH
        ? `String(index).padStart(${field.min}, '0')`
        : `\`\${context.seed}-\${index}\`.padStart(${field.min}, '0')`
    case 'integer':
    case 'money':
      if (isUnique && field.max - field.min < MIN_RANDOM_KEYS) return `${field.min} + index`
      if (isUnique) return `random.integer(${field.min}, ${field.max})`
      return `random.integer(${field.min}, ${Math.min(field.max, field.min + MAX_SPREAD)})`
    case 'decimal':
      if (!isUnique) return example
      return `\`\${index}${field.scale > 0 ? `.${'0'.repeat(field.scale)}` : ''}\``
    case 'boolean':
      return 'random.chance(0.5)'
    case 'enum':
      return `random.pick(${list(field.values)})`
    case 'date':
      return `toIsoString(created + ${field.position} * DAY_MS).slice(0, 10)`
    case 'timestamp':
      return `toIsoString(created + ${field.position} * 3_600_000)`
    case 'email':
      return `\`contact\${index}@s\${context.seed}.example.com\``
    case 'url':
      return isUnique ? `\`https://example.com/\${context.seed}/\${index}\`` : example
    case 'uuid':
      return 'random.uuid(created)'
    default:
      return example
  }
}

const getStep = ({ to }: Reference) => `${toCamel(to.name)}Rows`

function writeReference(reference: Reference, isUnique: boolean): string {
  const step = getStep(reference)
  const index = isUnique ? 'index' : `pickIndex(context, ${step}, created, random)`
  return `getRowId(context, ${step}, ${index})`
}

/** Returns whether the resources that each row refers to have demo rows, without which this one can have none. */
export const canHaveDemoRows = ({ references, fields }: ResourcePlan, exists: (name: string) => boolean) =>
  references.every(
    ({ to, column }) =>
      exists(to.name) || fields.some(({ name, isNullable }) => name === column && isNullable),
  )

export function writeDemoRows(plan: ResourcePlan, exists: (name: string) => boolean): string {
  const { name, singular, variable, references, fields, unique } = plan
  const referenced = references.filter(({ to }) => exists(to.name))
  const values = [
    ...referenced.map(
      (reference) => `${reference.column}: ${writeReference(reference, unique.includes(reference.column))},`,
    ),
    ...fields.flatMap((field) => {
      if (field.type !== 'ref') return `${field.name}: ${writeDemoValue(field, unique.includes(field.name))},`
      return referenced.some(({ column }) => column === field.name) ? [] : `${field.name}: null,`
    }),
  ]
  const code = `
function build${singular}(context: SeedContext, index: number): RowOf<typeof ${variable}> {
  const random = new Random(context.seed, '${name}', index)
  const created = getMoment(context, index, context.users, random)
  return {
    ...buildBase(random, created),
    ${values.join('\n    ')}
  }
}

export const demoRows: SeedStep = {
  resource: '${name}',
  tables: { ${variable} },
  indicesPerUser: 1,
  build: (context, index) => ({ ${variable}: [build${singular}(context, index)] }),
}
`
  const steps = new Map(referenced.map((reference) => [reference.to.name, getStep(reference)]))
  const shared = [
    'buildBase',
    'DAY_MS',
    'getMoment',
    'getRowId',
    'pickIndex',
    'type RowOf',
    'type SeedContext',
  ]
  return `/** The demo rows of ${toWords(name)}. */
import { ${variable} } from '../../../drizzle/tables/${name}.ts'
${importUsed(
  [
    ...shared,
    ...(steps.has('users') ? [`demoUsers as ${steps.get('users')}`] : []),
    'Random',
    'type SeedStep',
    'toIsoString',
  ],
  '@resource-api/accounts/seed',
  code,
)}
${[...steps]
  .filter(([to]) => to !== 'users')
  .map(([to, step]) => `import { demoRows as ${step} } from './${to}.ts'`)
  .join('\n')}
${code}`
}
