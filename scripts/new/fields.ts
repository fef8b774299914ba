/** Parses the fields of a new resource: `rating:integer(1..5), body:multiline(1..2000), product_id:ref(products)!`. */
import { MAX_INTEGER } from '../../schemas/types.ts'
import { UsageError } from '../../src/cli/usage-error.ts'

interface FieldBase {
  name: string
  isNullable: boolean
  isImmutable: boolean
  default?: string | number | boolean
}

/** A text with the bounds of its length, or a number with the bounds of its value. */
export type BoundedField = FieldBase & {
  type: 'text' | 'multiline' | 'integer' | 'money'
  min: number
  max: number
}
export type EnumField = FieldBase & { type: 'enum'; values: readonly string[] }
/** The id of a row of another resource. */
type ReferenceField = FieldBase & { type: 'ref'; to: string; cascades: boolean }
type PlainField = FieldBase & { type: 'boolean' | 'date' | 'timestamp' | 'url' | 'currency' }

export type Field = BoundedField | EnumField | ReferenceField | PlainField

/** The smallest and the largest bounds of a type, and the bounds of a field that states none. */
const bounds: Record<BoundedField['type'], { within: [number, number]; default: [number, number] }> = {
  text: { within: [0, 100_000], default: [1, 200] },
  multiline: { within: [0, 100_000], default: [1, 5_000] },
  integer: { within: [-MAX_INTEGER, MAX_INTEGER], default: [0, 1_000_000_000] },
  money: { within: [0, MAX_INTEGER], default: [0, 1_000_000_000_000] },
}

const TYPES = 'text, multiline, integer, money, currency, boolean, date, timestamp, enum, url or ref'
/** `name:type(arguments)?!=default` */
const FIELD = /^([^:\s]+)\s*:\s*([a-z]+)(?:\(([^()]*)\))?([?!]*)(?:\s*=\s*(.*))?$/
export const SNAKE_CASE = /^[a-z][a-z0-9]*(_[a-z0-9]+)*$/

/** Names that every resource, the parameters of lists or JSON bodies have already. */
const RESERVED = new Set(
  `id created_at updated_at revision type search limit cursor page sort order fields include
   created_after created_before updated_after updated_before constructor`.split(/\s+/),
)

/** Splits at the separators that are outside of parentheses. */
export function split(text: string, separator: string): string[] {
  const parts = ['']
  let depth = 0
  for (const character of text) {
    if (character === '(') depth++
    if (character === ')') depth--
    if (character === separator && depth === 0) parts.push('')
    else parts.push(parts.pop() + character)
  }
  return parts.map((part) => part.trim()).filter((part) => part !== '')
}

/** @throws UsageError if the name cannot be that of a field */
export function checkFieldName(name: string): void {
  if (!SNAKE_CASE.test(name)) {
    throw new UsageError(`"${name}" is not a field name; write it in snake_case, for example body_text`)
  }
  if (RESERVED.has(name)) throw new UsageError(`"${name}" is reserved; choose another field name`)
}

function readBounds(name: string, type: BoundedField['type'], text: string | undefined): [number, number] {
  const known = bounds[type]
  if (text === undefined) return known.default
  const match = /^\s*(-?\d{1,16})\s*\.\.\s*(-?\d{1,16})\s*$/.exec(text)
  const [min, max] = [Number(match?.[1]), Number(match?.[2])]
  const [lowest, highest] = known.within
  if (match && min <= max && min >= lowest && max <= highest && !(max === 0 && type !== 'integer')) {
    return [min, max]
  }
  throw new UsageError(
    `${name}: "${text}" are no bounds; write ${type}(MIN..MAX) with numbers from ${lowest} to ${highest}`,
  )
}

function readValues(name: string, text = ''): string[] {
  const values = text.split('|').map((value) => value.trim())
  if (values.length < 2 || new Set(values).size < values.length || !values.every((v) => SNAKE_CASE.test(v))) {
    throw new UsageError(`${name}: write two or more different values in snake_case, as in enum(small|large)`)
  }
  return values
}

function readReference(name: string, text = ''): { to: string; cascades: boolean } {
  const [to = '', option, ...others] = text.split(',').map((part) => part.trim())
  if (!name.endsWith('_id')) throw new UsageError(`${name}: the name of a reference ends with _id`)
  if (to === '' || others.length > 0 || (option !== undefined && option !== 'cascade')) {
    throw new UsageError(`${name}: write ref(RESOURCE) or ref(RESOURCE, cascade)`)
  }
  return { to, cascades: option === 'cascade' }
}

/** Reads the text after `=`. */
function readDefault(field: Field, text: string): string | number | boolean {
  const refuse = (expected: string) => new UsageError(`${field.name}: the default must be ${expected}`)
  if (field.isNullable) throw new UsageError(`${field.name}: the default of a nullable field is null`)
  switch (field.type) {
    case 'boolean':
      if (text === 'true' || text === 'false') return text === 'true'
      throw refuse('true or false')
    case 'integer':
    case 'money': {
      const value = /^-?\d{1,16}$/.test(text) ? Number(text) : Number.NaN
      if (value >= field.min && value <= field.max) return value
      throw refuse(`an integer from ${field.min} to ${field.max}`)
    }
    case 'text':
    case 'multiline':
      if ([...text].length >= field.min && [...text].length <= field.max) return text
      throw refuse(`a text of ${field.min} to ${field.max} characters`)
    case 'enum':
      if (field.values.includes(text)) return text
      throw refuse(`one of ${field.values.join(', ')}`)
    case 'currency':
      if (Intl.supportedValuesOf('currency').includes(text)) return text
      throw refuse('an ISO 4217 code such as USD')
    default:
      throw new UsageError(`${field.name}: a field of type ${field.type} has no default`)
  }
}

function readType(name: string, type: string, argument: string | undefined, base: FieldBase): Field {
  switch (type) {
    case 'text':
    case 'multiline':
    case 'integer':
    case 'money': {
      const [min, max] = readBounds(name, type, argument)
      return { ...base, type, min, max }
    }
    case 'enum':
      return { ...base, type, values: readValues(name, argument) }
    case 'ref':
      return { ...base, type, ...readReference(name, argument) }
    case 'boolean':
    case 'date':
    case 'timestamp':
    case 'url':
    case 'currency':
      if (argument !== undefined) throw new UsageError(`${name}: the type ${type} has no arguments`)
      return { ...base, type }
    default:
      throw new UsageError(`${name}: there is no type "${type}"; choose ${TYPES}`)
  }
}

function readField(text: string): Field {
  const match = FIELD.exec(text)
  if (!match)
    throw new UsageError(`"${text}" is not a field; write NAME:TYPE, for example rating:integer(1..5)`)
  const [, name = '', type = '', argument, flags = '', defaultText] = match
  checkFieldName(name)
  const base = { name, isNullable: flags.includes('?'), isImmutable: flags.includes('!') }
  const field = readType(name, type, argument, base)
  // The engine compares immutable fields as texts, and PostgreSQL writes a time in another form than the API.
  if (field.type === 'timestamp' && field.isImmutable) {
    throw new UsageError(`${name}: a timestamp cannot be immutable; leave out the "!"`)
  }
  return defaultText === undefined ? field : { ...field, default: readDefault(field, defaultText) }
}

/**
 * Returns the fields in their order. Behind the first amount of money it adds a field `currency`, unless there is one.
 * @throws UsageError
 */
export function readFields(text: string): Field[] {
  const fields = split(text, ',').map(readField)
  const money = fields.findIndex(({ type }) => type === 'money')
  if (money !== -1 && !fields.some(({ type }) => type === 'currency')) {
    fields.splice(money + 1, 0, { name: 'currency', type: 'currency', isNullable: false, isImmutable: false })
  }
  const currency = fields.find(({ type }) => type === 'currency')
  if (currency && currency.name !== 'currency') {
    throw new UsageError(`${currency.name}: a field of type currency has the name currency`)
  }
  return fields
}
