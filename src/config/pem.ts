/** PEM text as it comes through an environment: itself, with `\n` written out, or the path of its file. */
import { readFileSync } from 'node:fs'

/** @throws when the text is a path that cannot be read */
export function readPem(text: string): string {
  return text.startsWith('-----BEGIN ') ? text.replaceAll('\\n', '\n') : readFileSync(text, 'utf8')
}
