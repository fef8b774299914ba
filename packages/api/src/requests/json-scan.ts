/** Limits the structure of a JSON text, and finds duplicate and forbidden names, which `JSON.parse` does not report. */
import { isObject } from '@resource-api/database/values'

const MAX_DEPTH = 20
const MAX_MEMBERS_PER_OBJECT = 1_000
/**
 * Objects, arrays and members of a whole body. `JSON.parse` needs 100 ms for 1 MiB of small objects with different
 * names, and 10 ms for this many. Numbers, strings and literals in arrays are not counted: 1 MiB of them takes 25 ms.
 */
const MAX_NODES = 10_000

const FORBIDDEN_NAMES = new Set(['__proto__', 'constructor'])

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a
const OPENING_BRACE = 0x7b
const CLOSING_BRACE = 0x7d
const OPENING_BRACKET = 0x5b
const CLOSING_BRACKET = 0x5d
const isWhitespace = (code: number) => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09

/** Returns the index of the closing quote of the string that begins at `start`. */
function findEndOfString(text: string, start: number): number {
  let i = start + 1
  while (i < text.length && text.charCodeAt(i) !== QUOTE) i += text.charCodeAt(i) === BACKSLASH ? 2 : 1
  return i
}

/**
 * Measures a JSON text in one pass that ends at the first limit that is exceeded. Allocates nothing for an object, an
 * array or a name. The result is meaningless for a text that is not valid JSON, which the parser rejects afterwards.
 * @param subject what the messages call the text
 * @returns the number of members of all objects, duplicates included, and the exceeded limit as a message for the client
 */
export function measureStructure(text: string, subject = 'body'): { members: number; excess?: string } {
  const membersByDepth = new Uint16Array(MAX_DEPTH + 1)
  let depth = 0
  let members = 0
  let nodes = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === QUOTE) {
      i = findEndOfString(text, i)
      let next = i + 1
      while (isWhitespace(text.charCodeAt(next))) next++
      // Only the name of a member is followed by a colon.
      if (text.charCodeAt(next) === COLON) {
        members++
        nodes++
        const membersOfObject = (membersByDepth[depth] ?? 0) + 1
        membersByDepth[depth] = membersOfObject
        if (membersOfObject > MAX_MEMBERS_PER_OBJECT) {
          return {
            members,
            excess: `An object of the ${subject} has more than ${MAX_MEMBERS_PER_OBJECT} fields`,
          }
        }
      }
      i = next - 1
    } else if (code === OPENING_BRACE || code === OPENING_BRACKET) {
      depth++
      nodes++
      if (depth > MAX_DEPTH)
        return { members, excess: `The ${subject} is nested deeper than ${MAX_DEPTH} levels` }
      membersByDepth[depth] = 0
    } else if ((code === CLOSING_BRACE || code === CLOSING_BRACKET) && depth > 0) depth--
    if (nodes > MAX_NODES) {
      return { members, excess: `The ${subject} has more than ${MAX_NODES} objects, arrays and fields` }
    }
  }
  return { members }
}

/**
 * Counts the members of a parsed value, whose depth `measureStructure` limits: fewer than in the text where an object has
 * a name twice, of which the parser keeps the last. Finds names by which merged objects change the prototype of all.
 */
export function readNames(value: unknown, names = { members: 0, hasForbidden: false }) {
  if (Array.isArray(value)) {
    for (const item of value) if (typeof item === 'object') readNames(item, names)
  } else if (isObject(value)) {
    for (const name of Object.keys(value)) {
      names.members++
      names.hasForbidden ||= FORBIDDEN_NAMES.has(name)
      readNames(value[name], names)
    }
  }
  return names
}
