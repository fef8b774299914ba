/** The face of the settings, which loads nothing else of the package. */

export { listOwnSecrets, type OwnSettings, pickOwnSettings } from './all-settings.ts'
export { findMistypedNames, readConfig } from './read-config.ts'
export { loadAppSecret } from './secrets.ts'
export type { Config } from './settings.ts'
