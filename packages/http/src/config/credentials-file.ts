/** Where the generated credentials of the first admin stand. */
import { join, resolve } from 'node:path'

/** Returns the path of the file with the generated credentials, if they could not be shown on a terminal. */
export const getCredentialsFile = (dataDir: string): string => resolve(join(dataDir, 'first-credentials'))
