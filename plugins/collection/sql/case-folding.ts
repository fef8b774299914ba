/** Text as search compares it: Unicode's full case folding, the same on every database since none takes part. */

const ascii = /^[\0-\x7f]*$/

/** Folds a text: `Straße` and `STRASSE`, `ΟΔΟΣ` and `οδος` become the same. A dotless i stays what it is. */
export const fold = (text: string): string =>
  ascii.test(text)
    ? text.toLowerCase()
    : text
        .split('ı')
        .map((part) => part.toLowerCase().toUpperCase().toLowerCase().replaceAll('ς', 'σ'))
        .join('ı')
        .normalize('NFC')

/** What a row is found by: its searchable members, folded, a line each, so that no word spans two of them. */
export const searchText = (row: Readonly<Record<string, unknown>>, members: readonly string[]): string =>
  members
    .map((member) => row[member])
    .filter((value) => typeof value === 'string')
    .map((value) => fold(value))
    .join('\n')

/** The words of a search, each as a LIKE pattern in which nothing is special. */
export const patternsOf = (words: readonly string[]): string[] =>
  words.map((word) => `%${fold(word).replace(/[\\%_]/g, '\\$&')}%`)
