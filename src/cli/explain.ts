/** A failure in words for who started the service or typed a command. */
import { ConfigError } from '../config.ts'

/** The reasons, from the error to its first cause; a bug of ours with the place where it is. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error instanceof TypeError || error instanceof ReferenceError) return error.stack ?? error.message
  return error.cause instanceof Error ? `${error.message}\n  ${reasonOf(error.cause)}` : error.message
}

export function explain(what: string, error: unknown): string {
  if (error instanceof ConfigError) {
    return `The settings are wrong:\n${error.problems.map((problem) => `  ${problem}`).join('\n')}`
  }
  return `${what}: ${reasonOf(error)}`
}
