/** Turns a name in code, SQL or a path into the words of a sentence, or into another kind of name. */

/** Splits a name into words: `user profiles` for `UserProfiles` or `user-profiles`, `API key` for `api_key`. */
export const toWords = (name: string): string =>
  name
    .replace(/(?<=[a-z0-9])(?=[A-Z])/g, ' ')
    .replace(/[-_]/g, ' ')
    .toLowerCase()
    .replace(/\bapi\b/g, 'API')

/** Puts the indefinite article before words: `a review`, `an API key`. */
export const withArticle = (words: string): string => `${/^[aeio]/i.test(words) ? 'an' : 'a'} ${words}`

/** Converts a name such as `created_after` or `If-Match` to `CreatedAfter` or `IfMatch`. */
export const toPascalCase = (name: string): string =>
  name.replace(/(?:^|[_-])([a-z])/gi, (_, letter: string) => letter.toUpperCase())
