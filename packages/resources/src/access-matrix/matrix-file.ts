/** The file in which an application promises its access: test/access-matrix.json. */

import { existsSync, readFileSync } from 'node:fs'
import { identity } from '@resource-api/database'
import type { AccessMatrix } from './build-matrix.ts'

/** Relative to the folder of the application. */
export const MATRIX_FILE = 'test/access-matrix.json'

/** What writes the file. */
export const WRITE_COMMAND = `${identity.program} access --write`

/** Biome, with the settings of a new application, keeps an object of this width on one line. */
const MAX_WIDTH = 100

function isMatrix(value: unknown): value is AccessMatrix {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return Object.values(value).every((each) => typeof each === 'string' || isMatrix(each))
}

/**
 * Returns the matrix of the file; undefined if there is no file.
 * @throws Error if it has another form
 */
export function readMatrix(file = MATRIX_FILE): AccessMatrix | undefined {
  if (!existsSync(file)) return undefined
  let value: unknown
  try {
    value = JSON.parse(readFileSync(file, 'utf8'))
  } catch (error) {
    throw new Error(`${file} is not JSON: ${error instanceof Error ? error.message : error}`, {
      cause: error,
    })
  }
  if (isMatrix(value)) return value
  throw new Error(`${file} should have objects and texts alone; ${WRITE_COMMAND} writes it`)
}

/** Returns the text of an object, whose opening brace follows `before` in its line. */
function formatPart(part: AccessMatrix, indent: string, before: string): string {
  const entries = Object.entries(part)
  if (entries.length === 0) return '{}'
  const isLeaf = entries.every(([, value]) => typeof value === 'string')
  const short = entries.map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`).join(', ')
  // With a comma after it.
  if (isLeaf && `${before}{ ${short} },`.length <= MAX_WIDTH) return `{ ${short} }`
  const inner = `${indent}  `
  const lines = entries.map(([name, value]) => {
    const key = `${inner}${JSON.stringify(name)}: `
    return key + (typeof value === 'string' ? JSON.stringify(value) : formatPart(value, inner, key))
  })
  return `{\n${lines.join(',\n')}\n${indent}}`
}

/** Returns the text of the file: one line for each rule that fits into one, as formatters keep it. */
export const formatMatrix = (matrix: AccessMatrix): string => `${formatPart(matrix, '', '')}\n`
