/** Runs a command of the CLI in this process: starting another one takes longer than what most commands do. */
import type { Test } from 'tap'
import { commands } from '../../src/cli/commands.ts'
import { main } from '../../src/cli/main.ts'

export interface CommandResult {
  code: number
  out: string
  err: string
}

/** @param settings the only environment variables of the command */
export async function runCommand(
  t: Test,
  args: readonly string[],
  settings: NodeJS.ProcessEnv = {},
): Promise<CommandResult> {
  const [out, err] = [t.capture(console, 'log'), t.capture(console, 'error')]
  const env = t.intercept(process, 'env', { value: settings })
  const code = await main(commands, args)
  const getText = (calls: typeof out) =>
    calls()
      .map(({ args: [line] }) => `${line}\n`)
      .join('')
  const result = { code, out: getText(out), err: getText(err) }
  for (const undo of [out, err, env]) undo.restore()
  return result
}
