/** Formats an error for the operator who started the service or ran a command. */
import { ConfigError } from './read-config.ts'

/** Lists the messages from the error to its root cause; a programming error is shown with its stack. */
function formatCauses(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error instanceof TypeError || error instanceof ReferenceError) return error.stack ?? error.message
  return error.cause instanceof Error ? `${error.message}\n  ${formatCauses(error.cause)}` : error.message
}

/** @param what the action that failed, such as `migrate failed` */
export function explainError(what: string, error: unknown): string {
  if (error instanceof ConfigError) {
    return `Invalid settings:\n${error.problems.map((problem) => `  ${problem}`).join('\n')}`
  }
  return `${what}: ${formatCauses(error)}`
}
