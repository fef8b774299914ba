/** Asks for a secret: without echo on a terminal; else it is the first line of standard input, so that a pipe works. */
import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'

const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })

/**
 * @returns what was typed, without the end of its line; '' where nothing was
 * @throws where it was interrupted: that is no answer, and an empty one would be taken for one
 */
export async function askSecret(question: string): Promise<string> {
  const { stdin, stderr } = process
  const asking = stdin.isTTY === true
  // What is typed is echoed to `nowhere`, from here on: asked any earlier, a fast answer would still be shown.
  const lines = createInterface({ input: stdin, output: nowhere, terminal: asking })
  if (asking) stderr.write(question)
  let interrupted = false
  lines.once('SIGINT', () => {
    interrupted = true
    lines.close()
  })
  try {
    for await (const line of lines) return line
    if (interrupted) throw new Error('interrupted, and nothing was made')
    return ''
  } finally {
    lines.close()
    if (asking) stderr.write('\n')
  }
}
