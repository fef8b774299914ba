/** Reads a secret: from a terminal without echo, otherwise from the first line of standard input. */
import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'

const discard = new Writable({ write: (_chunk, _encoding, done) => done() })

/**
 * @returns the line without its line break; '' if the input is empty
 * @throws if the user presses Ctrl-C, so that this does not count as an empty answer
 */
export async function askSecret(question: string): Promise<string> {
  const { stdin, stderr } = process
  const isTerminal = stdin.isTTY === true
  // From here on readline echoes to `discard`. It is created before the question is printed, so that the terminal itself
  // does not echo a fast answer.
  const lines = createInterface({ input: stdin, output: discard, terminal: isTerminal })
  if (isTerminal) stderr.write(question)
  let isInterrupted = false
  lines.once('SIGINT', () => {
    isInterrupted = true
    lines.close()
  })
  try {
    for await (const line of lines) return line
    if (isInterrupted) throw new Error('Interrupted; nothing was changed')
    return ''
  } finally {
    lines.close()
    if (isTerminal) stderr.write('\n')
  }
}
