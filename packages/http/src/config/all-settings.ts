/** The settings of the product, and those that an application registers before it reads any. */
import { type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import type { Config } from './settings.ts'
import { productSettings } from './settings.ts'

/**
 * The values of the application's own settings, which it declares with `declare module '@resource-api/http/config'`.
 * @public
 */
// biome-ignore lint/suspicious/noEmptyInterface: applications add to it
export interface OwnSettings {}

declare module 'fastify' {
  interface FastifyInstance {
    settings: OwnSettings
  }
}

let ownSettings: TProperties = {}
const build = (own: TProperties): TObject => Type.Object<TProperties>({ ...productSettings, ...own })

let settings = build({})

/** Registers the settings of the application. Called once, when they are imported. */
export function registerSettings<T extends TProperties>(own: T): T {
  ownSettings = own
  settings = build(own)
  return own
}

/** Returns all settings. */
export const getSettings = (): TObject => settings

const NAME = /^[A-Z][A-Z0-9_]*$/

/** Returns a sentence for each of the application's own settings whose name cannot be used. */
export function findInvalidNames(): string[] {
  const advice = 'choose another name in src/config/own-settings.ts'
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
