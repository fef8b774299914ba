/** Runs a command of `resource-api` in this process: starting another takes longer than what the command does. */
import { Readable } from 'node:stream'
import type { Test } from 'tap'
import { main } from '../../src/cli/program.ts'
import { withSchema } from './database.ts'

export interface CommandResult {
  code: number
  out: string
  err: string
}

/**
 * @param args the words of the command line; a text is split at its spaces
 * @param settings the only environment variables
 * @param input standard input
 */
export async function runCommand(
  t: Pick<Test, 'capture' | 'intercept'>,
  args: string | readonly string[],
  settings: NodeJS.ProcessEnv = {},
  input = '',
): Promise<CommandResult> {
  const [out, err] = [t.capture(console, 'log'), t.capture(console, 'error')]
  const env = t.intercept(process, 'env', { value: withSchema(settings) })
  const stdin = t.intercept(process, 'stdin', { value: Readable.from([input]) })
  const code = await main(typeof args === 'string' ? args.split(' ').filter(Boolean) : args)
  const text = (calls: typeof out) =>
    calls()
      .map((call) => `${call.args[0]}\n`)
      .join('')
  const result = { code, out: text(out), err: text(err) }
  for (const undo of [out, err, env, stdin]) undo.restore()
  return result
}
