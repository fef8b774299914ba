/** The interface of a command: its help texts, its options and its action. */

/** An option, which takes a value or is a flag. Without a default it may be omitted. */
interface Option {
  /** The placeholder of the value in --help. Without it, the option is a flag: its value is 'true' or undefined. */
  value?: string
  help: string
  default?: string
}

/** The values of arguments and options by name, or their defaults. */
export type Values = Readonly<Record<string, string | undefined>>

export interface Command {
  summary: string
  /** Text of --help below the options. */
  details?: string
  /** Positional arguments in their order, all required: name and help text. */
  arguments?: Readonly<Record<string, string>>
  options: Readonly<Record<string, Option>>
  /** Resolves for exit code 0, throws for 1. `serve` never resolves. */
  run(values: Values): Promise<void>
}

/** The commands by name, which is one word or two (`users create`). */
export type Commands = Readonly<Record<string, Command>>

/** An invalid command line: exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** Returns the value of a required option. @throws UsageError if it is missing */
export function getRequired(values: Values, name: string): string {
  const value = values[name]
  if (value === undefined) throw new UsageError(`--${name} is required`)
  return value
}

/** Returns an option's value as a whole number. @throws UsageError if it is not one from `minimum` to `maximum` */
export function getWholeNumber(values: Values, name: string, minimum: number, maximum: number): number {
  const text = values[name] ?? ''
  const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  if (number >= minimum && number <= maximum) return number
  throw new UsageError(`--${name} must be a whole number from ${minimum} to ${maximum}, not '${text}'`)
}
