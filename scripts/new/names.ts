/** Derives the names of a resource in code, in SQL and in texts from its name in paths. */

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

/** Returns the singular of an English plural, in PascalCase; undefined if the rules do not know it. */
export function toSingular(plural: string): string | undefined {
  const pascal = toPascal(plural)
  if (/[^aeiou]ies$/.test(pascal)) return pascal.replace(/ies$/, 'y')
  if (/(?:x|ch|sh|ss|zz)es$/.test(pascal)) return pascal.replace(/es$/, '')
  return /[^siu]s$/.test(pascal) ? pascal.slice(0, -1) : undefined
}
