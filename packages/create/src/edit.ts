/** Edits the text of a file. */

/**
 * Replaces the first match of a pattern.
 * @param path names the file in the error
 * @throws Error if the text does not have it: the file has changed, and so has to change what edits it
 */
export function edit(path: string, text: string, pattern: RegExp, replacement: string): string {
  if (text.search(pattern) === -1) throw new Error(`${path} has no match of ${pattern}`)
  return text.replace(pattern, () => replacement)
}
