/** The face of the settings, which loads nothing else of the package. */

export { listOwnSecrets, pickOwnSettings } from './all-settings.ts'
export { getCredentialsFile } from './credentials-file.ts'
export { describeSettings } from './describe-settings.ts'
export { explainError } from './explain-error.ts'
export { formats } from './formats.ts'
export { readPem } from './keys.ts'
export { ConfigError, readClientKey, readClientPort, readConfig } from './read-config.ts'
export { getSecretFile, keepSecret, loadAppSecret, readKeptSecret, SECRET_USES } from './secrets.ts'
export type { Config } from './settings.ts'
