/** What `JSON.parse` does not tell of a text: how deep it nests, and which names its objects should not have. */

export interface Scan {
  depth: number
  /** Whether an object has a name twice: `JSON.parse` keeps the last such member, others the first. */
  hasDuplicates: boolean
  /** Whether there is a name by which merged objects change what all objects are. */
  hasForbidden: boolean
}

const FORBIDDEN = new Set(['__proto__', 'constructor'])

const QUOTE = 0x22
const BACKSLASH = 0x5c
const isSpace = (code: number) => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09

/** Where the string that begins at `start` ends: the index of its closing quote. */
function endOfString(text: string, start: number): number {
  let i = start + 1
  while (i < text.length && text.charCodeAt(i) !== QUOTE) i += text.charCodeAt(i) === BACKSLASH ? 2 : 1
  return i
}

/** `"a"` and `"\u0061"` are one name. */
function nameOf(raw: string): string {
  if (!raw.includes('\\')) return raw
  try {
    return JSON.parse(`"${raw}"`)
  } catch {
    return raw
  }
}

/** One pass, which invalid JSON may make meaningless: the parser refuses that afterwards. */
export function scan(text: string): Scan {
  /** The names seen in each open object; none in arrays. */
  const open: Set<string>[] = []
  let depth = 0
  let hasDuplicates = false
  let hasForbidden = false
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === QUOTE) {
      const end = endOfString(text, i)
      let next = end + 1
      while (isSpace(text.charCodeAt(next))) next++
      if (text[next] === ':') {
        const name = nameOf(text.slice(i + 1, end))
        const names = open.at(-1)
        hasForbidden ||= FORBIDDEN.has(name)
        hasDuplicates ||= names?.has(name) === true
        names?.add(name)
      }
      i = end
    } else if (code === 0x7b || code === 0x5b) {
      open.push(new Set())
      depth = Math.max(depth, open.length)
    } else if (code === 0x7d || code === 0x5d) open.pop()
  }
  return { depth, hasDuplicates, hasForbidden }
}
