/** Finds the first syntax error of a JSON text. The message of `JSON.parse` quotes the text, and may lack the position. */
import { visit } from 'jsonc-parser'

/** Characters. In a longer text, the error is not searched. */
const MAX_LENGTH = 65_536

class Found extends Error {
  readonly line: number
  readonly column: number

  constructor(line: number, column: number) {
    super()
    this.line = line
    this.column = column
  }
}

/**
 * @param text nested no deeper than a few thousand levels
 * @returns the line and the column, both from 1, of the value or sign that is wrong; undefined if there is none, or the
 * text is too long
 */
export function findSyntaxError(text: string): { line: number; column: number } | undefined {
  if (text.length > MAX_LENGTH) return undefined
  try {
    visit(
      text,
      {
        // The visitor reports all errors, up to one for each character, unless it is left.
        onError(_error, _offset, _length, line, column) {
          throw new Found(line + 1, column + 1)
        },
      },
      { disallowComments: true },
    )
    return undefined
  } catch (error) {
    if (!(error instanceof Found)) throw error
    return { line: error.line, column: error.column }
  }
}
