/** The template of `schemas/{name}.ts`. */
import { toWords } from '../../../lib/to-words.ts'
import type { BoundedField, EnumField, Field } from '../fields.ts'
import { toCamel, toPascal, toSnake } from '../names.ts'
import type { ResourcePlan } from '../resource-plan.ts'
import { importUsed, list, literal, number, quote } from './code.ts'
import { getExample } from './values.ts'

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
    integer: `The ${words}`,
    money: 'In minor units of `currency`',
    currency: 'An ISO 4217 code',
    boolean: /^(is|has) /.test(words) ? `Whether it ${words}` : `The ${words}`,
    date: 'A day',
    timestamp: 'A time',
    enum: `The ${words}`,
    url: 'An https URL',
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

function writeEnum(plan: ResourcePlan, field: EnumField): string {
  const description = field.name === 'status' && plan.states ? describeStates(plan) : describe(field)
  const title = `${plan.singular}${toPascal(field.name)}`
  return `OneOf(${getValuesName(plan, field)}, { title: '${title}', ${getDefault(field)} description: ${quote(description)} })`
}

/** Years before 1 are valid in JSON Schema, but not in PostgreSQL. */
const writeTime = (field: Field, format: string) =>
  `Text({ format: '${format}', pattern: '^(?!0000)', ${writeOptions(field)} })`

function writeType(plan: ResourcePlan, field: Field): string {
  switch (field.type) {
    case 'text':
    case 'multiline':
      return writeText(field)
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
    case 'ref':
      return `Id(${quote(describe(field))})`
  }
}

const writeField = (plan: ResourcePlan, field: Field) => {
  const type = writeType(plan, field)
  return `${field.name}: ${field.isNullable ? `Nullable(${type})` : type},`
}

/** An example of a body that members may send: without the status, if only managers and admins may set it. */
function writeCreateExample(plan: ResourcePlan): string {
  if (!plan.isStatusForStaff) return ''
  const values = plan.fields
    .filter((field) => field.default === undefined && !field.isNullable)
    .map((field) => `${field.name}: ${field.type === 'ref' ? 'exampleId' : literal(getExample(field) ?? '')}`)
  return `, examples: [{ ${values.join(', ')} }]`
}

export function writeSchema(plan: ResourcePlan): string {
  const { singular, owner, parent } = plan
  const immutable = plan.fields.filter(({ isImmutable }) => isImmutable)
  const changeable = plan.fields.filter(({ isImmutable }) => !isImmutable)
  const enums = plan.fields.filter((field): field is EnumField => field.type === 'enum')
  const ownerColumn = owner && owner !== parent ? owner.column : undefined
  const second = plan.states && [...plan.states.keys()][1]
  const fromPath = parent ? `${parent.column}: Id('The ${toWords(parent.to.singular)}, from the path'),` : ''
  const rest = `${immutable.length > 0 ? '...immutable,' : ''} ...fields`
  const createFields =
    ownerColumn || immutable.length > 0
      ? `{
        ${ownerColumn ? `${ownerColumn}: Type.Optional({ ...owner, description: 'The user; by default the caller' }),` : ''}
        ${rest}
      }`
      : 'fields'
  const code = `
${enums.map((field) => `const ${getValuesName(plan, field)} = ${list(field.values)} as const\n`).join('')}
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

export const ${singular}Change = Type.Object(fields, { title: '${singular}Change'${second ? `, examples: [{ status: '${second}' }]` : ''} })
`
  const helpers = [
    'common',
    'Currency',
    'exampleId',
    'HttpsUri',
    'Id',
    'Integer',
    'Nullable',
    'OneOf',
    'Text',
  ]
  return `/** The schemas of ${toWords(plan.name)}. */
import { Type } from '@sinclair/typebox'
${importUsed(helpers, './types.ts', code)}${code}`
}
