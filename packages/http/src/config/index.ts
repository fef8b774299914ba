/** The face of the settings, which loads nothing else of the package. */

export { listOwnSecrets, pickOwnSettings } from './all-settings.ts'
export { describeSettings } from './describe-settings.ts'
export { readConfig } from './read-config.ts'
export { loadAppSecret } from './secrets.ts'
export type { Config } from './settings.ts'
