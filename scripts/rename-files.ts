/** Replaces the name of the product in the text and the names of all files of a working tree. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { listFiles } from './run.ts'

/** The license names its holders. */
const UNCHANGED = ['LICENSE']

/** Returns the spellings of a name: for packages and files, for metrics, for environment variables, and for alerts. */
const spell = (name: string) => {
  const snakeCase = name.replaceAll('-', '_')
  const pascalCase = name.replace(/(?:^|-)(.)/g, (_, letter: string) => letter.toUpperCase())
  return [name, snakeCase, snakeCase.toUpperCase(), pascalCase]
}

/** Returns a function that replaces a name in a text, in each of its spellings. */
export function createReplace(from: string, to: string): (text: string) => string {
  const spellings = spell(to)
  // After the name of an alert follows another word.
  const patterns = spell(from).map(
    (name, i) => new RegExp(`(?<![A-Za-z0-9])${name}(?![${i === 3 ? '' : 'A-Z'}a-z0-9])`, 'g'),
  )
  return (text) => patterns.reduce((result, pattern, i) => result.replace(pattern, spellings[i] ?? to), text)
}

/** @returns how many of the tracked files below `folder` have changed */
export function renameFiles(folder: string, from: string, to: string): number {
  const replace = createReplace(from, to)
  let count = 0
  for (const file of listFiles(folder).filter((each) => !UNCHANGED.includes(each))) {
    const path = join(folder, replace(file))
    const isMoved = path !== join(folder, file)
    if (isMoved) {
      mkdirSync(dirname(path), { recursive: true })
      renameSync(join(folder, file), path)
    }
    const content = readFileSync(path)
    // A NUL byte is in no text.
    const text = content.includes(0) ? undefined : content.toString()
    const replaced = text === undefined ? undefined : replace(text)
    if (replaced !== undefined && replaced !== text) writeFileSync(path, replaced)
    if (isMoved || replaced !== text) count += 1
  }
  return count
}
