/** Writes JSON values in the languages of the code samples. */

/** How a language writes the values of JSON. */
interface Syntax {
  /** The indentation of a level. */
  indent: string
  hasTrailingComma: boolean
  /** What stands between the braces of an object on one line and its members. */
  padding: string
  writeName(name: string): string
  /** Writes a string, a number, a boolean or null. */
  write(value: unknown): string
}

/** The longest value of several members on one line. */
const MAX_LINE_LENGTH = 45

/** Writes a value: short objects and lists on one line, others with a line for each member. */
function writeValue(value: unknown, syntax: Syntax, margin = ''): string {
  if (typeof value !== 'object' || value === null) return syntax.write(value)
  const inner = margin + syntax.indent
  const isArray = Array.isArray(value)
  const writeMembers = (each: string) =>
    Object.entries(value).map(
      ([name, member]) =>
        `${isArray ? '' : `${syntax.writeName(name)}: `}${writeValue(member, syntax, each)}`,
    )
  const [open, close, padding] = isArray ? ['[', ']', ''] : ['{', '}', syntax.padding]
  const line = `${open}${padding}${writeMembers(margin).join(', ')}${padding}${close}`
  if (line.length <= MAX_LINE_LENGTH && !line.includes('\n')) return line
  const end = syntax.hasTrailingComma ? ',' : ''
  return `${open}\n${inner}${writeMembers(inner).join(`,\n${inner}`)}${end}\n${margin}${close}`
}

const JSON_SYNTAX: Syntax = {
  indent: '  ',
  hasTrailingComma: false,
  padding: ' ',
  writeName: JSON.stringify,
  write: JSON.stringify,
}

const TYPESCRIPT_SYNTAX: Syntax = {
  ...JSON_SYNTAX,
  hasTrailingComma: true,
  writeName: (name) => (/^\w+$/.test(name) ? name : JSON.stringify(name)),
}

/** @param write writes a string, a number, a boolean or null. Default: as JSON */
export const writeTypeScript = (value: unknown, write: Syntax['write'] = JSON.stringify) =>
  writeValue(value, { ...TYPESCRIPT_SYNTAX, write })

const PYTHON_NAMES = new Map<unknown, string>([
  [null, 'None'],
  [true, 'True'],
  [false, 'False'],
])

export const writePython = (value: unknown) =>
  writeValue(value, {
    indent: '    ',
    hasTrailingComma: true,
    padding: '',
    writeName: JSON.stringify,
    write: (each) => PYTHON_NAMES.get(each) ?? JSON.stringify(each),
  })

/** Writes a value in single quotes of a shell. */
export const writeShell = (value: unknown) =>
  `'${writeValue(value, JSON_SYNTAX).replaceAll("'", String.raw`'\''`)}'`
