/** The files of a resource: those of its name. */

/** Matches the files of a resource in the repository. */
const PATTERNS = (name: string) => [
  new RegExp(`^(schemas|plugins|drizzle/tables|src/cli/demo-data)/${name}\\.ts$`),
  new RegExp(`^test/resources/${name}\\.(test|examples)\\.ts$`),
  new RegExp(`^(plugins|test/resources)/${name}/`),
]

/** Returns the files of these resources. @param files paths relative to the repository */
export const selectFiles = (files: readonly string[], names: readonly string[]): string[] =>
  files.filter((file) => names.some((name) => PATTERNS(name).some((pattern) => pattern.test(file))))

/** Returns `src/own.ts` without the imports of a resource's plugin and the entries of what they import. */
export function withoutResource(text: string, name: string): string {
  const imports = new RegExp(
    `^import (?:\\{([^}]*)\\}|(\\w+)) from '\\.\\./plugins/${name}(?:/[^']*)?\\.ts'\n`,
    'gm',
  )
  const imported = [...text.matchAll(imports)].flatMap(([, list = '', plugin = '']) => [
    ...list.split(','),
    plugin,
  ])
  const identifiers = imported.map((each) => each.trim()).filter((each) => each !== '')
  return identifiers.reduce(
    (result, identifier) => result.replace(new RegExp(`\\b${identifier}\\b,?\\s*`, 'g'), ''),
    text.replace(imports, ''),
  )
}
