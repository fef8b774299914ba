/** Writes values as TypeScript. Biome brings the code into its final form. */

/** A string literal. */
export const quote = (text: string) => JSON.stringify(text)

/** A number literal with separators: `1_000_000`. */
export const number = (value: number) =>
  Math.abs(value) < 10_000 ? String(value) : value.toLocaleString('en-US').replaceAll(',', '_')

/** A value of a field. */
export type Value = string | number | boolean | readonly string[] | null

/** A literal of a field's value. */
export const literal = (value: Value) => (typeof value === 'number' ? number(value) : JSON.stringify(value))

/** An array literal of strings. */
export const list = (texts: readonly string[]) => `[${texts.map(quote).join(', ')}]`

/** Imports of the tables that the code uses. `toModule` returns the import path of a file in `drizzle`. */
export const importTables = (
  tables: readonly { table: string; file: string }[],
  toModule: (file: string) => string,
  code: string,
): string =>
  [...new Set(tables.map(({ file }) => file))]
    .sort()
    .map((file) => {
      const names = tables.filter((each) => each.file === file).map(({ table }) => table)
      return importUsed([...new Set(names)], toModule(file), code)
    })
    .join('')

/** Returns the names that the code uses, and not only texts or comments. */
export function findUsed(names: readonly string[], code: string): string[] {
  const withoutTexts = code.replace(/"(?:[^"\\]|\\.)*"|'[^'\n]*'/g, '').replace(/\/\/.*/g, '')
  const getLocal = (name: string) => name.replace('type ', '').replace(/^\w+ as /, '')
  return names.filter((name) => new RegExp(`\\b${getLocal(name)}\\b`).test(withoutTexts))
}

/** An import of the names that the code uses. */
export function importUsed(names: readonly string[], from: string, code: string): string {
  const used = findUsed(names, code)
  return used.length > 0 ? `import { ${used.join(', ')} } from '${from}'\n` : ''
}
