/** A mistake of the command line. The message is for its author; exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
