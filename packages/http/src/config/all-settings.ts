/** The settings of the packages, and those that the application declares. */
import { type DeclaredSettings, getApplication } from '@resource-api/database/application'
import { type Static, type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import type { Config } from './settings.ts'
import { productSettings } from './settings.ts'

/** The values of the application's own settings. */
export type OwnSettings = Readonly<Static<TObject<DeclaredSettings>>>

declare module 'fastify' {
  interface FastifyInstance {
    settings: OwnSettings
  }
}

const ownSettings = getApplication().settings ?? {}

export const allSettings: TObject = Type.Object<TProperties>({ ...productSettings, ...ownSettings })

const NAME = /^[A-Z][A-Z0-9_]*$/

/** Returns a sentence for each of the application's own settings whose name cannot be used. */
export function findInvalidNames(): string[] {
  const advice = 'choose another name in src/application.ts'
  return Object.keys(ownSettings).flatMap((name) => {
    if (name in productSettings) return [`${name} is a setting of the product: ${advice}`]
    return NAME.test(name)
      ? []
      : [`${name} must have only capital letters, digits and underscores: ${advice}`]
  })
}

export type SettingName = keyof typeof productSettings

/** Returns the values of the application's own settings. */
export const pickOwnSettings = (config: Config): OwnSettings =>
  // The schema of the settings has the properties of the registered ones.
  Object.fromEntries(Object.entries(config).filter(([name]) => name in ownSettings)) as OwnSettings

/** Returns the names of the application's own settings that are secret. */
export const listOwnSecrets = (): string[] =>
  Object.entries<TSchema>(ownSettings).flatMap(([name, { secret }]) => (secret === true ? [name] : []))
