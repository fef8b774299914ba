/** What each type of field is in the schema, in the table and in tests. */
import { list, literal, number, quote, toSnake, toWords, type Value } from './names.ts'

interface Bounds {
  min: number
  max: number
}

/** The arguments of each type. */
interface Arguments {
  text: Bounds
  multiline: Bounds
  /** A list of texts, with the bounds of its length. */
  texts: Bounds
  integer: Bounds
  money: Bounds
  /** A number with `precision` digits, `scale` of them after the decimal point: a text in JSON. */
  decimal: { precision: number; scale: number }
  enum: { values: readonly string[] }
  /** The id of a row of another resource. */
  ref: { to: string; cascades: boolean }
  boolean: object
  date: object
  time: object
  timestamp: object
  email: object
  url: object
  uuid: object
  currency: object
}

export type TypeName = keyof Arguments

interface FieldBase {
  name: string
  isNullable: boolean
  /** Set at creation, and never changed. */
  isImmutable: boolean
  /** A column that only code of the application sets. */
  isReadOnly: boolean
  /** Has no column: code of the collection computes it. */
  isComputed: boolean
  default?: Value
  /** How many fields of its type precede it: the example of an end is later than that of its start. */
  position: number
  /** The column in an existing table, as Drizzle declares it. */
  column?: string
}

export type FieldOf<T extends TypeName> = { [K in T]: FieldBase & { type: K } & Arguments[K] }[T]
export type Field = FieldOf<TypeName>

interface FieldType<T extends TypeName> {
  /** @param words the words of the field's name */
  describe(words: string): string
  /** @param options the default, the description and the example, as properties */
  schema(field: FieldOf<T>, options: string, description: string): string
  column(field: FieldOf<T>): string
  example(field: FieldOf<T>): Value
  /** Another valid value. Default: the example. */
  other?(field: FieldOf<T>): Value
  /** A value that the field rejects, as code, and the code of the violation. */
  invalid?(field: FieldOf<T>): readonly [value: string, code: string]
}

/** Returns a text with the length that the field allows. */
const fit = (text: string, { min, max }: Bounds) =>
  text.padEnd(min, '.').slice(0, max).trim().padEnd(min, '.')

const clamp = (value: number, { min, max }: Bounds) => Math.min(max, Math.max(min, value))

/** Returns a whole number with the decimals of the field. */
export const formatDecimal = (value: number, { precision, scale }: Arguments['decimal']) =>
  scale === 0 ? String(value) : `${precision > scale ? value : 0}.${'0'.repeat(scale)}`

/** A moment on the first day of the examples: the second one is an hour later. */
const getMoment = (position: number) => new Date(Date.UTC(2026, 11, 1, 9 + position, 30)).toISOString()

const listTexts = (word: string, { min }: Bounds) =>
  Array.from({ length: Math.max(1, min) }, (_, i) => `${word} ${i + 1}`)

/** Of a text on one line, or on several. */
const createText = (
  option: string,
  description: (words: string) => string,
): FieldType<'text' | 'multiline'> => ({
  describe: description,
  schema: ({ min, max }, options) =>
    `Text({ minLength: ${number(min)}, maxLength: ${number(max)}, ${option}${options} })`,
  column: () => 'text()',
  example: (field) => fit(`Example ${toWords(field.name)}`, field),
  other: (field) => fit(`Changed ${toWords(field.name)}`, field),
  invalid: ({ max }) => [`'x'.repeat(${max + 1})`, 'TOO_LONG'],
})

const createNumber = (
  example: number,
  description: (words: string) => string,
): FieldType<'integer' | 'money'> => ({
  describe: description,
  schema: ({ min, max }, options) => `Integer(${number(min)}, ${number(max)}, { ${options} })`,
  column: () => 'integer()',
  example: (field) => clamp(example, field),
  other: (field) => (clamp(example, field) === field.max ? field.min : clamp(example + 1, field)),
  invalid: ({ max }) =>
    Number.isSafeInteger(max + 1) ? [String(max + 1), 'OUT_OF_RANGE'] : ["'1'", 'INVALID_TYPE'],
})

const writeTime = (format: string, options: string) =>
  `Text({ format: '${format}', pattern: YEARS_FROM_1, ${options} })`

const invalidFormat =
  (value: string): (() => readonly [string, string]) =>
  () => [quote(value), 'INVALID_FORMAT']

/** Of types whose function takes the description only. */
const createPlain = (
  helper: string,
  description: string,
  column: string,
  example: string,
  other: string,
) => ({
  describe: () => description,
  schema: (_field: unknown, _options: string, text: string) => `${helper}(${quote(text)})`,
  column: () => column,
  example: () => example,
  other: () => other,
})

const exampleId = '0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f'

const types: { [T in TypeName]: FieldType<T> } = {
  text: createText('', (words) => `The ${words}, on one line`),
  multiline: createText("'x-multiline': true, ", (words) => `The ${words}, which may have several lines`),
  texts: {
    describe: (words) => `The ${words}`,
    schema: ({ min, max }, options) =>
      `Type.Array(Text({ minLength: 1, maxLength: 200 }), { minItems: ${min}, maxItems: ${number(max)}, uniqueItems: true, ${options} })`,
    column: () => 'jsonb().$type<string[]>()',
    example: (field) => listTexts('Example', field),
    other: (field) => listTexts('Changed', field),
    invalid: () => ["'x'", 'INVALID_TYPE'],
  },
  integer: createNumber(5, (words) => `The ${words}`),
  money: createNumber(1999, () => 'In minor units of `currency`'),
  decimal: {
    describe: (words) => `The ${words}, with all decimals`,
    schema: ({ precision, scale }, options) => `Decimal(${precision}, ${scale}, { ${options} })`,
    column: ({ precision, scale }) => `numeric({ precision: ${precision}, scale: ${scale} })`,
    example: (field) => formatDecimal(5, field),
    other: (field) => formatDecimal(6, field),
    invalid: invalidFormat('1e1'),
  },
  enum: {
    describe: (words) => `The ${words}`,
    // Replaced by a constant with the values.
    schema: ({ values }, options) => `OneOf(${list(values)}, { ${options} })`,
    column: ({ values }) => `text().$type<${values.map(quote).join(' | ')}>()`,
    example: ({ values, default: initial }) => initial ?? values[0] ?? null,
    other: ({ values, default: initial }) => values.find((value) => value !== (initial ?? values[0])) ?? null,
    invalid: () => ["'other_value'", 'INVALID_VALUE'],
  },
  ref: {
    ...createPlain('Id', '', 'uuid()', exampleId, exampleId),
    describe: (words) => `The ${words.replace(/ id$/, '')}`,
  },
  boolean: {
    describe: (words) => (/^(is|has) /.test(words) ? `Whether it ${words}` : `The ${words}`),
    schema: (_, options) => `Type.Boolean({ ${options} })`,
    column: () => 'boolean()',
    example: () => true,
    other: ({ default: initial }) => initial === false,
    invalid: () => ["'yes'", 'INVALID_TYPE'],
  },
  date: {
    describe: () => 'A day',
    schema: (_, options) => writeTime('date', options),
    column: () => 'date()',
    example: ({ position }) => new Date(Date.UTC(2026, 11, 1 + position)).toISOString().slice(0, 10),
    invalid: invalidFormat('2026-02-30'),
  },
  time: {
    describe: () => 'A time of day',
    schema: (_, options) => `TimeOfDay({ ${options} })`,
    column: () => 'time()',
    example: ({ position }) => getMoment(position).slice(11, 19),
    invalid: invalidFormat('24:00:00'),
  },
  timestamp: {
    describe: () => 'A time',
    schema: (_, options) => writeTime('date-time', options),
    column: () => 'moment()',
    example: ({ position }) => getMoment(position),
    invalid: invalidFormat('yesterday'),
  },
  email: {
    ...createPlain('Email', 'An email address', 'text()', 'ada@example.com', 'changed@example.com'),
    invalid: invalidFormat('no address'),
  },
  url: {
    ...createPlain(
      'HttpsUri',
      'An https URL',
      'text()',
      'https://example.com',
      'https://example.com/changed',
    ),
    invalid: invalidFormat('http://example.com'),
  },
  uuid: {
    ...createPlain('Id', 'A UUID', 'uuid()', exampleId, exampleId.replace(/f$/, 'e')),
    invalid: invalidFormat('1'),
  },
  currency: {
    describe: () => 'An ISO 4217 code',
    schema: ({ default: initial }) =>
      initial === undefined ? 'Currency()' : `{ ...Currency(), default: ${literal(initial)} }`,
    column: () => 'text()',
    example: ({ default: initial }) => initial ?? 'USD',
    other: ({ default: initial }) => ((initial ?? 'USD') === 'EUR' ? 'USD' : 'EUR'),
    invalid: invalidFormat('EURO'),
  },
}

export const typeNames = Object.keys(types)

export const isTypeName = (type: string): type is TypeName => Object.hasOwn(types, type)

export const getExample = <T extends TypeName>(field: FieldOf<T>): Value => types[field.type].example(field)

/** Returns another valid value, if the type has one that depends on no other field. */
export const getOther = <T extends TypeName>(field: FieldOf<T>): Value =>
  types[field.type].other?.(field) ?? getExample(field)

export const getInvalid = <T extends TypeName>(field: FieldOf<T>) => types[field.type].invalid?.(field)

/** The field in the schemas. @param title of the type of an enum in clients */
export function writeSchema<T extends TypeName>(field: FieldOf<T>, text?: string): string {
  const words = toWords(field.name)
  const suffix = field.isImmutable ? '; cannot be changed' : field.isReadOnly ? '; set by the server' : ''
  // Whether the texts of an existing column have several lines is not known.
  const described =
    field.type === 'multiline' && field.column ? `The ${words}` : types[field.type].describe(words)
  const description = text ?? `${described}${suffix}`
  const initial = field.default === undefined ? '' : `default: ${literal(field.default)}, `
  const options = `${initial}description: ${quote(description)}, examples: [${literal(getExample(field))}]`
  const type = types[field.type].schema(field, options, description)
  return field.isNullable ? `Nullable(${type})` : type
}

/** Whether clients send the field. */
export const isSent = ({ isReadOnly, isComputed }: Field) => !isReadOnly && !isComputed

/** Whether code of the creation has to set the column: neither a client nor the table does. */
export const isSetByCode = ({ isReadOnly, isNullable, default: initial, column }: Field) =>
  isReadOnly && !isNullable && initial === undefined && column === undefined

/** The column of the field in the table, without the reference. */
export function writeColumn<T extends TypeName>(field: FieldOf<T>): string {
  const initial = field.default === undefined ? '' : `.default(${literal(field.default)})`
  return field.column ?? `${types[field.type].column(field)}${field.isNullable ? '' : '.notNull()'}${initial}`
}

/** The values below and above all others that stand for NULL, with their SQL type: `toSortKey` of the engine has the same. */
const EXTREMES: Partial<Record<TypeName, readonly [type: string, greatest: string, least: string]>> = {
  date: ['date', 'infinity', '-infinity'],
  timestamp: ['timestamptz', 'infinity', '-infinity'],
  decimal: ['numeric', 'Infinity', '-Infinity'],
  integer: ['bigint', '9223372036854775807', '-9223372036854775808'],
  money: ['bigint', '9223372036854775807', '-9223372036854775808'],
}

/** Returns the expressions that sort a nullable column so that NULL comes last in both directions. */
export function writeNullSorts({ name, type }: Field): { ascending: string; descending: string } {
  const [sqlType, greatest, least] = EXTREMES[type] ?? []
  const coalesce = (value = '') => `sql\`(coalesce(\${t.${name}}, '${value}'::${sqlType}))\``
  if (sqlType) return { ascending: coalesce(greatest), descending: coalesce(least) }
  // Texts have no greatest value, so all but NULL get the prefix "0".
  return {
    ascending: `sql\`(coalesce('0' || \${t.${name}}, '1'))\``,
    descending: `sql\`(coalesce(\${t.${name}}, ''))\``,
  }
}

/** The name of the constant with the values of an enum. */
export const nameValues = (singular: string, name: string) => {
  const [first = '', ...rest] = `${toSnake(singular)}_${name}`.split('_')
  return `${first}${rest.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')}Values`
}
