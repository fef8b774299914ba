/** Reads the code of an error, as Node.js and database drivers set it: `EADDRINUSE`, `23505`. */

/** @returns undefined for a value that is not an error, and for an error without a code */
export const getErrorCode = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
