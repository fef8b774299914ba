/** The face of the settings, which loads nothing else of the package. */

export { listOwnSecrets, pickOwnSettings } from './all-settings.ts'
export { getCredentialsFile } from './credentials-file.ts'
export { describeSettings } from './describe-settings.ts'
export { explainError } from './explain-error.ts'
export { formats } from './formats.ts'
export { parsePrivateKeys, readPem } from './keys.ts'
export { ConfigError, readClientKey, readClientPort, readConfig } from './read-config.ts'
export type { SecretBox } from './secret-box.ts'
export { createConfiguredBox } from './secret-box.ts'
export {
  deriveKey,
  getSecretFile,
  keepSecret,
  loadAppSecret,
  readKeptSecret,
  SECRET_USES,
} from './secrets.ts'
export type { Config, RunConfig } from './settings.ts'
export { productSettings } from './settings.ts'
export { parseSmtpUrl } from './smtp-url.ts'
