/** The face of the settings, which loads nothing else of the package. */

export { listOwnSecrets, type OwnSettings, pickOwnSettings, registerSettings } from './all-settings.ts'
export { findMistypedNames, readConfig } from './read-config.ts'
export { loadAppSecret } from './secrets.ts'
export { flag, limit, list, number, oneOf, optional, text } from './setting-types.ts'
export type { Config } from './settings.ts'
