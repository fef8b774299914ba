/** The settings of the product and those that the project adds. */
import { type Static, type TObject, type TSchema, Type } from '@sinclair/typebox'
import { type Config, productSettings } from '../../plugins/config/settings.ts'
import { ownSettings } from './own-settings.ts'

export const Settings = Type.Object({ ...productSettings, ...ownSettings })

const NAME = /^[A-Z][A-Z0-9_]*$/

/** Returns a sentence for each of the project's own settings whose name cannot be used. */
export function findInvalidNames(): string[] {
  const advice = 'choose another name in src/config/own-settings.ts'
  return Object.keys(ownSettings).flatMap((name) => {
    if (name in productSettings) return [`${name} is a setting of the product: ${advice}`]
    return NAME.test(name)
      ? []
      : [`${name} must have only capital letters, digits and underscores: ${advice}`]
  })
}

/** The values of the project's own settings. */
export type OwnConfig = Readonly<Static<TObject<typeof ownSettings>>>

export type SettingName = keyof typeof Settings.properties

/** Returns the values of the project's own settings. */
export const pickOwnSettings = (config: Config): OwnConfig =>
  // The schema of the settings has the properties of `ownSettings`.
  Object.fromEntries(Object.entries(config).filter(([name]) => name in ownSettings)) as OwnConfig

/** Returns the names of the project's own settings that are secret. */
export const listOwnSecrets = (): string[] =>
  Object.entries<TSchema>(ownSettings).flatMap(([name, { secret }]) => (secret === true ? [name] : []))
