/** Derives the names of a resource in code, in SQL and in texts from its name in paths, and writes values as TypeScript. */

const capitalize = (word: string) => word.charAt(0).toUpperCase() + word.slice(1)

/** `user-profiles` or `user_id` -> `UserProfiles`, `UserId` */
export const toPascal = (name: string) => name.split(/[-_]/).map(capitalize).join('')

/** `user-profiles` -> `userProfiles` */
export const toCamel = (name: string) => {
  const pascal = toPascal(name)
  return pascal.charAt(0).toLowerCase() + pascal.slice(1)
}

/** `user-profiles` -> `user_profiles`, `UserProfile` -> `user_profile` */
export const toSnake = (name: string) =>
  name
    .replaceAll('-', '_')
    .replace(/(?<=[a-z0-9])(?=[A-Z])/g, '_')
    .toLowerCase()

/** `user-profiles` or `UserProfile` -> `user profiles`, `user profile` */
export const toWords = (name: string) => toSnake(name).replaceAll('_', ' ')

/** Puts the indefinite article before words: `a review`, `an order`. */
export const withArticle = (words: string) => `${/^[aeio]/i.test(words) ? 'an' : 'a'} ${words}`

/** Returns the singular of an English plural, in PascalCase; undefined if the rules do not know it. */
export function toSingular(plural: string): string | undefined {
  const pascal = toPascal(plural)
  if (/[^aeiou]ies$/.test(pascal)) return pascal.replace(/ies$/, 'y')
  if (/(?:x|ch|sh|ss|zz)es$/.test(pascal)) return pascal.replace(/es$/, '')
  return /[^siu]s$/.test(pascal) ? pascal.slice(0, -1) : undefined
}

/** A value of a field. */
export type Value = string | number | boolean | readonly string[] | null

/** A string literal. */
export const quote = (text: string) =>
  `'${text.replace(/[\\']/g, '\\$&').replaceAll('\n', '\\n').replaceAll('\r', '\\r')}'`

/** Escapes a text for a template literal. */
export const escapeTemplate = (text: string) => text.replace(/[\\`]|\$\{/g, '\\$&')

/** A number literal with separators: `1_000_000`. */
export const number = (value: number) =>
  Math.abs(value) < 10_000 ? String(value) : value.toLocaleString('en-US').replaceAll(',', '_')

/** An array literal of strings. */
export const list = (texts: readonly string[]) => `[${texts.map(quote).join(', ')}]`

/** A literal of a field's value. */
export function literal(value: Value): string {
  if (typeof value === 'number') return number(value)
  if (typeof value === 'string') return quote(value)
  return value === null || typeof value === 'boolean' ? String(value) : list(value)
}

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
