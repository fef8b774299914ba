/** An invalid command line, which ends the process with exit code 2; and the readers of option values. */
import { InvalidArgumentError } from '@commander-js/extra-typings'

export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** Returns a reader of an option's value. The reader throws if the text is not a whole number in the range. */
export const wholeNumber = (minimum: number, maximum: number) => (text: string) => {
  const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  if (number >= minimum && number <= maximum) return number
  throw new InvalidArgumentError(`It must be a whole number from ${minimum} to ${maximum}.`)
}
