/** The settings that the project adds to those of the product, by the functions for settings of the package http. */
import { registerSettings } from '@resource-api/http/config'
import type { Static, TObject } from '@sinclair/typebox'

const ownSettings = registerSettings({})

declare module '@resource-api/http/config' {
  interface OwnSettings extends Readonly<Static<TObject<typeof ownSettings>>> {}
}
