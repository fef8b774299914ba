/** Parses the fields of a new resource: `rating:integer(1..5), body:multiline(1..2000), product_id:ref(products)!`. */
import { getDecimalPattern, isNegativeZero, MAX_INTEGER } from '@resource-api/api/schemas'
import { UsageError } from '../usage-error.ts'
import { split, type Value } from './names.ts'
import { type Field, type FieldOf, formatDecimal, isSetByCode, isTypeName, typeNames } from './types.ts'

type BoundedType = 'text' | 'multiline' | 'texts' | 'integer' | 'money'

/** The smallest and the largest bounds of a type, and the bounds of a field that states none. */
const bounds: Record<BoundedType, { within: [number, number]; default: [number, number] }> = {
  text: { within: [0, 100_000], default: [1, 200] },
  multiline: { within: [0, 100_000], default: [1, 5_000] },
  texts: { within: [0, 1_000], default: [0, 20] },
  integer: { within: [-MAX_INTEGER, MAX_INTEGER], default: [0, 1_000_000_000] },
  money: { within: [0, MAX_INTEGER], default: [0, 1_000_000_000_000] },
}

/** The digits of a decimal number: more than any amount or measurement has. */
const MAX_PRECISION = 38

/** `name:type(arguments)?!=default readonly` */
const FIELD = /^([^:\s]+)\s*:\s*([a-z]+)(?:\(([^()]*)\))?([?!]*)(?:\s*=\s*(.*?))?(?:\s+(readonly|computed))?$/
export const SNAKE_CASE = /^[a-z][a-z0-9]*(_[a-z0-9]+)*$/
const TIME_OF_DAY = /^([01]\d|2[0-3]):[0-5]\d:[0-5]\d$/

/** Names that every resource, the parameters of lists or JSON bodies have already. */
const RESERVED = new Set(
  `id created_at updated_at revision type search limit cursor page sort order fields include
   created_after created_before updated_after updated_before constructor`.split(/\s+/),
)

/** @throws UsageError if the name cannot be that of a field */
export function checkFieldName(name: string): void {
  if (!SNAKE_CASE.test(name)) {
    throw new UsageError(`"${name}" is not a field name; write it in snake_case, for example body_text`)
  }
  if (RESERVED.has(name)) throw new UsageError(`"${name}" is reserved; choose another field name`)
}

function readBounds(type: BoundedType, text: string | undefined) {
  const known = bounds[type]
  if (text === undefined) return { min: known.default[0], max: known.default[1] }
  const match = /^\s*(-?\d{1,16})\s*\.\.\s*(-?\d{1,16})\s*$/.exec(text)
  const [min, max] = [Number(match?.[1]), Number(match?.[2])]
  const [lowest, highest] = known.within
  if (match && min <= max && min >= lowest && max <= highest && !(max === 0 && type !== 'integer'))
    return { min, max }
  throw new UsageError(
    `"${text}" are no bounds; write ${type}(MIN..MAX) with numbers from ${lowest} to ${highest}`,
  )
}

function readDigits(text = ''): { precision: number; scale: number } {
  const [, precision, scale] = /^\s*(\d{1,2})\s*,\s*(\d{1,2})\s*$/.exec(text)?.map(Number) ?? []
  if (precision && scale !== undefined && precision <= MAX_PRECISION && scale <= precision) {
    return { precision, scale }
  }
  throw new UsageError(
    `write decimal(DIGITS,DECIMALS) with at most ${MAX_PRECISION} digits, as in decimal(10,2) for 12345678.90`,
  )
}

function readValues(text = ''): string[] {
  const values = text.split('|').map((value) => value.trim())
  if (values.length < 2 || new Set(values).size < values.length || !values.every((v) => SNAKE_CASE.test(v))) {
    throw new UsageError('write two or more different values in snake_case, as in enum(small|large)')
  }
  return values
}

function readReference(name: string, text = ''): { to: string; cascades: boolean } {
  const [to = '', option, ...others] = text.split(',').map((part) => part.trim())
  if (!name.endsWith('_id')) throw new UsageError('the name of a reference ends with _id')
  if (to === '' || others.length > 0 || (option !== undefined && option !== 'cascade')) {
    throw new UsageError('write ref(RESOURCE) or ref(RESOURCE, cascade)')
  }
  return { to, cascades: option === 'cascade' }
}

/** Reads the text after `=`. */
function readDefault(field: Field, text: string): Value {
  const refuse = (expected: string) => new UsageError(`the default must be ${expected}`)
  if (field.isNullable) throw new UsageError('the default of a nullable field is null')
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
    case 'texts':
      if (text === '[]' && field.min === 0) return []
      throw refuse('[], of a list that may be empty')
    case 'decimal':
      if (new RegExp(getDecimalPattern(field.precision, field.scale)).test(text) && !isNegativeZero(text))
        return text
      throw refuse(`a number with ${field.scale} decimals, such as ${formatDecimal(1, field)}`)
    case 'time':
      if (TIME_OF_DAY.test(text)) return text
      throw refuse('a time of day with seconds, such as 09:30:00')
    case 'enum':
      if (field.values.includes(text)) return text
      throw refuse(`one of ${field.values.join(', ')}`)
    case 'currency':
      if (Intl.supportedValuesOf('currency').includes(text)) return text
      throw refuse('an ISO 4217 code such as USD')
    default:
      throw new UsageError(`a field of type ${field.type} has no default`)
  }
}

function readType(type: string, argument: string | undefined, base: Omit<FieldOf<'boolean'>, 'type'>): Field {
  if (!isTypeName(type)) throw new UsageError(`there is no type "${type}"; choose ${typeNames.join(', ')}`)
  switch (type) {
    case 'text':
    case 'multiline':
    case 'texts':
    case 'integer':
    case 'money':
      return { ...base, type, ...readBounds(type, argument) }
    case 'decimal':
      return { ...base, type, ...readDigits(argument) }
    case 'enum':
      return { ...base, type, values: readValues(argument) }
    case 'ref':
      return { ...base, type, ...readReference(base.name, argument) }
    default:
      if (argument !== undefined) throw new UsageError(`the type ${type} has no arguments`)
      return { ...base, type }
  }
}

/** @throws UsageError if no row could have a value of what the caller does not send */
function checkSource({
  isReadOnly,
  isComputed,
  isImmutable,
  isNullable,
  type,
  default: initial,
}: Field): void {
  if ((isReadOnly || isComputed) && isImmutable)
    throw new UsageError('only fields that clients send are immutable; leave out "!"')
  if (isComputed && (initial !== undefined || type === 'ref'))
    throw new UsageError('a computed field has no column, and so no default and no reference')
  if (isReadOnly && type === 'ref' && !isNullable)
    throw new UsageError('a new row has no value of it: make it nullable with "?"')
}

/** The fields without mistakes, and the names of all fields, so that a mistake in one causes no others. */
export interface ReadFields {
  fields: Field[]
  names: string[]
}

/** Reads one field, and reports each of its mistakes with its name. */
function readField(text: string, report: (message: string) => void): { name?: string; field?: Field } {
  const match = FIELD.exec(text)
  if (!match) {
    report(`"${text}" is not a field; write NAME:TYPE, for example rating:integer(1..5)`)
    return {}
  }
  const [, name = '', type = '', argument, flags = '', defaultText, source] = match
  let isRight = true
  const attempt = <T>(work: () => T): T | undefined => {
    try {
      return work()
    } catch (error) {
      if (!(error instanceof UsageError)) throw error
      isRight = false
      report(`${name}: ${error.message}`)
      return undefined
    }
  }
  attempt(() => checkFieldName(name))
  const base = {
    name,
    isNullable: flags.includes('?'),
    isImmutable: flags.includes('!'),
    isReadOnly: source === 'readonly',
    isComputed: source === 'computed',
    position: 0,
  }
  const field = attempt(() => readType(type, argument, base))
  const initial =
    field && defaultText !== undefined ? attempt(() => readDefault(field, defaultText)) : undefined
  const complete = field && (initial === undefined ? field : { ...field, default: initial })
  if (complete && isRight) attempt(() => checkSource(complete))
  return complete && isRight ? { name, field: complete } : { name }
}

/** Returns what is behind the type of the currency: who sets and changes the amounts does so with it. */
function getCurrencyOptions(amounts: readonly Field[]): string {
  if (amounts.every(({ isImmutable }) => isImmutable)) return '!'
  if (amounts.every(({ isComputed }) => isComputed)) return ' computed'
  if (!amounts.every(({ isReadOnly }) => isReadOnly)) return ''
  if (amounts.some(isSetByCode)) return ' readonly'
  return amounts.every(({ isNullable }) => isNullable) ? '? readonly' : '=USD readonly'
}

/**
 * Reads the fields in their order. Behind the first amount of money it adds a field `currency`, unless there is one.
 * @param report is called with each mistake
 */
export function readFields(text: string, report: (message: string) => void): ReadFields {
  const read = split(text, ',').map((each) => readField(each, report))
  const fields = read.flatMap(({ field }) => field ?? [])
  const names = read.flatMap(({ name }) => name ?? [])
  const money = fields.findIndex(({ type }) => type === 'money')
  const amounts = fields.filter(({ type }) => type === 'money')
  if (money !== -1 && !fields.some(({ type }) => type === 'currency')) {
    const { field: currency } = readField(`currency:currency${getCurrencyOptions(amounts)}`, report)
    if (currency) fields.splice(money + 1, 0, currency)
    if (!names.includes('currency')) names.push('currency')
  }
  for (const { name, type } of fields) {
    if (type === 'currency' && name !== 'currency') {
      report(`${name}: a field of type currency has the name currency`)
    }
  }
  const getPosition = ({ type }: Field, index: number) =>
    fields.slice(0, index).filter((each) => each.type === type).length
  return { fields: fields.map((field, i) => ({ ...field, position: getPosition(field, i) })), names }
}
