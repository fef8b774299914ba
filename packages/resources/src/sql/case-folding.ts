/**
 * Folds the case of text for search, by Unicode's full case folding. The server does it, so that the result does not
 * depend on the locale of the database.
 */

const ASCII = /^[\0-\x7f]*$/

/** Returns a text in one case: `Straße` and `STRASSE`, `ΟΔΟΣ` and `οδος` become the same. A dotless i is kept. */
export const foldCase = (text: string): string =>
  ASCII.test(text)
    ? text.toLowerCase()
    : text
        .split('ı')
        .map((part) => part.toLowerCase().toUpperCase().toLowerCase().replaceAll('ς', 'σ'))
        .join('ı')
        .normalize('NFC')

/** Returns the text of a row that is searched: one folded field per line, so that no word matches across two fields. */
export function buildSearchText(row: Readonly<Record<string, unknown>>, fields: readonly string[]): string {
  const lines: string[] = []
  for (const field of fields) {
    const value = row[field]
    if (typeof value === 'string') lines.push(foldCase(value))
  }
  return lines.join('\n')
}

/** Returns a LIKE pattern of texts that begin with this one, in which `%`, `_` and `\` stand for themselves. */
export const toPrefixPattern = (text: string): string => `${foldCase(text).replace(/[\\%_]/g, '\\$&')}%`

/** Returns a LIKE pattern for each word, of texts that contain it. */
export const toLikePatterns = (words: readonly string[]): string[] =>
  words.map((word) => `%${toPrefixPattern(word)}`)
