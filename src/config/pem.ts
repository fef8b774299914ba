/** Reads PEM from a setting: the text itself, the text with escaped newlines (`\n`), or the path of a file. */
import { readFileSync } from 'node:fs'

/** @throws if the text is the path of a file that cannot be read */
export function readPem(text: string): string {
  return text.startsWith('-----BEGIN ') ? text.replaceAll('\\n', '\n') : readFileSync(text, 'utf8')
}
