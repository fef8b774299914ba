/** The template of `schemas/{name}.ts`. */
import { toWords } from '../../../packages/http/src/lib/to-words.ts'
import type { BoundedField, EnumField, Field } from '../fields.ts'
import { toCamel, toPascal, toSnake } from '../names.ts'
import type { ResourcePlan } from '../resource-plan.ts'
import { importUsed, list, literal, number, quote } from './code.ts'
import { getExample, getOther, getSecondState } from './values.ts'

const describeStates = ({ states }: ResourcePlan) =>
  [...(states ?? [])]
    .filter(([, following]) => following.length > 0)
    .map(([state, following]) => `${state} -> ${following.join(', ')}`)
    .join('; ')

function describe(field: Field): string {
  const words = toWords(field.name)
  const texts: Record<Field['type'], string> = {
    text: `The ${words}, on one line`,
    multiline: `The ${words}, which may have several lines`,
    texts: `The ${words}`,
    integer: `The ${words}`,
    decimal: `The ${words}, with all decimals`,
    money: 'In minor units of `currency`',
    currency: 'An ISO 4217 code',
    boolean: /^(is|has) /.test(words) ? `Whether it ${words}` : `The ${words}`,
    date: 'A day',
    time: 'A time of day',
    timestamp: 'A time',
    enum: `The ${words}`,
    email: 'An email address',
    url: 'An https URL',
    uuid: 'A UUID',
    ref: `The ${words.replace(/ id$/, '')}`,
  }
  return `${texts[field.type]}${field.isImmutable ? '; cannot be changed' : ''}`
}

const getDefault = (field: Field) =>
  field.default === undefined ? '' : `default: ${literal(field.default)},`

/** The options that fields of most types have. */
const writeOptions = (field: Field) =>
  `${getDefault(field)} description: ${quote(describe(field))}, examples: [${literal(getExample(field) ?? '')}]`

const writeText = (field: BoundedField) => {
  const options = [
    `minLength: ${number(field.min)}`,
    `maxLength: ${number(field.max)}`,
    ...(field.type === 'multiline' ? ["'x-multiline': true"] : []),
  ]
  return `Text({ ${options.join(', ')}, ${writeOptions(field)} })`
}

const getValuesName = (plan: ResourcePlan, field: EnumField) =>
  `${toCamel(`${toSnake(plan.singular)}-${field.name}`)}Values`

/** The constants with the values of the enums. */
export const writeValues = (plan: ResourcePlan) =>
  plan.fields
    .filter((field): field is EnumField => field.type === 'enum')
    .map((field) => `const ${getValuesName(plan, field)} = ${list(field.values)} as const\n`)
    .join('')

function writeEnum(plan: ResourcePlan, field: EnumField): string {
  const description = field.name === 'status' && plan.states ? describeStates(plan) : describe(field)
  const title = `${plan.singular}${toPascal(field.name)}`
  return `OneOf(${getValuesName(plan, field)}, { title: '${title}', ${getDefault(field)} description: ${quote(description)} })`
}

/** A list of different texts on one line each. */
const writeTexts = (field: BoundedField) => {
  const options = [`minItems: ${field.min}`, `maxItems: ${number(field.max)}`, 'uniqueItems: true']
  return `Type.Array(Text({ minLength: 1, maxLength: 200 }), { ${options.join(', ')}, ${writeOptions(field)} })`
}

/** Years before 1 are valid in JSON Schema, but not in PostgreSQL. */
const writeTime = (field: Field, format: string) =>
  `Text({ format: '${format}', pattern: '^(?!0000)', ${writeOptions(field)} })`

function writeType(plan: ResourcePlan, field: Field): string {
  switch (field.type) {
    case 'text':
    case 'multiline':
      return writeText(field)
    case 'texts':
      return writeTexts(field)
    case 'decimal':
      return `Decimal(${field.precision}, ${field.scale}, { ${writeOptions(field)} })`
    case 'time':
      return `TimeOfDay({ ${writeOptions(field)} })`
    case 'email':
      return `Email(${quote(describe(field))})`
    case 'integer':
    case 'money':
      return `Integer(${number(field.min)}, ${number(field.max)}, { ${writeOptions(field)} })`
    case 'currency':
      return field.default === undefined ? 'Currency()' : `{ ...Currency(), ${getDefault(field)} }`
    case 'boolean':
      return `Type.Boolean({ ${writeOptions(field)} })`
    case 'date':
      return writeTime(field, 'date')
    case 'timestamp':
      return writeTime(field, 'date-time')
    case 'enum':
      return writeEnum(plan, field)
    case 'url':
      return `HttpsUri(${quote(describe(field))})`
    case 'uuid':
    case 'ref':
      return `Id(${quote(describe(field))})`
  }
}

export const writeField = (plan: ResourcePlan, field: Field) => {
  const type = writeType(plan, field)
  return `${field.name}: ${field.isNullable ? `Nullable(${type})` : type},`
}

/** An example of a body without what the schema makes optional, such as a status that only managers and admins may set. */
function writeCreateExample(plan: ResourcePlan): string {
  if (!plan.isStatusForStaff) return ''
  const values = plan.fields
    .filter((field) => field.default === undefined && !field.isNullable)
    .map((field) => `${field.name}: ${field.type === 'ref' ? 'exampleId' : literal(getExample(field) ?? '')}`)
  return `, examples: [{ ${values.join(', ')} }]`
}

/** Types of which the tests of all resources make another value. */
const VARIED_TYPES = ['text', 'multiline', 'integer', 'money']

/**
 * An example of a change: to the next state, or to a field that every role may write if there is no text or number. The
 * example of a field with a default would change nothing.
 */
function writeChangeExample(plan: ResourcePlan): string {
  const second = getSecondState(plan)
  if (second !== undefined) return `, examples: [{ status: '${second}' }]`
  const open = plan.fields.filter(
    ({ name, isImmutable }) => !isImmutable && plan.restrictions.every((each) => each.field !== name),
  )
  const [field] = open.filter(({ type }) => type !== 'ref')
  if (!field || open.some(({ type }) => VARIED_TYPES.includes(type))) return ''
  return `, examples: [{ ${field.name}: ${literal(getOther(field) ?? '')} }]`
}

/** The functions of the package http that schemas may need. */
export const schemaHelpers = [
  'common',
  'Currency',
  'Decimal',
  'Email',
  'exampleId',
  'HttpsUri',
  'Id',
  'Integer',
  'Nullable',
  'OneOf',
  'Text',
  'TimeOfDay',
]

export function writeSchema(plan: ResourcePlan): string {
  const { singular, owner, parent } = plan
  const immutable = plan.fields.filter(({ isImmutable }) => isImmutable)
  const changeable = plan.fields.filter(({ isImmutable }) => !isImmutable)
  const ownerColumn = owner && owner !== parent ? owner.column : undefined
  const fromPath = parent ? `${parent.column}: Id('The ${toWords(parent.to.singular)}, from the path'),` : ''
  const rest = `${immutable.length > 0 ? '...immutable,' : ''} ...fields`
  const createFields =
    ownerColumn || immutable.length > 0
      ? `{
        ${ownerColumn ? `${ownerColumn}: ${plan.isOwnerWriting ? "Type.Optional({ ...owner, description: 'The user; by default the caller' })" : 'owner'},` : ''}
        ${rest}
      }`
      : 'fields'
  const code = `
${writeValues(plan)}
${ownerColumn ? `const owner = Id('The user; cannot be changed')\n` : ''}
${immutable.length > 0 ? `const immutable = { ${immutable.map((field) => writeField(plan, field)).join('\n')} }\n` : ''}
const fields = {
  ${changeable.map((field) => writeField(plan, field)).join('\n  ')}
}

export const ${singular} = Type.Object(
  { id: Id(), ${fromPath} ${ownerColumn ? `${ownerColumn}: owner,` : ''} ${rest}, ...common },
  { title: '${singular}', description: ${quote(plan.description)} },
)

export const ${singular}Create = Type.Object(${createFields}, { title: '${singular}Create'${writeCreateExample(plan)} })

export const ${singular}Change = Type.Object(fields, { title: '${singular}Change'${writeChangeExample(plan)} })
`
  return `/** The schemas of ${toWords(plan.name)}. */
import { Type } from '@sinclair/typebox'
${importUsed(schemaHelpers, '@resource-api/http/schemas', code)}${code}`
}
