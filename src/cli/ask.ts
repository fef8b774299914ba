/** Asks for a secret: without echo on a terminal; else it is the first line of standard input, so that a pipe works. */
import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'

const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })

/** @returns what was typed, without the end of its line; '' where nothing was */
export async function askSecret(question: string): Promise<string> {
  const { stdin, stderr } = process
  const asking = stdin.isTTY === true
  if (asking) stderr.write(question)
  // What is typed is echoed to `nowhere`.
  const lines = createInterface({ input: stdin, output: nowhere, terminal: asking })
  try {
    for await (const line of lines) return line
    return ''
  } finally {
    lines.close()
    if (asking) stderr.write('\n')
  }
}
