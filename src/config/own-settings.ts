/** The settings that the project adds to those of the product, by the functions of `plugins/config/setting-types.ts`. */
import type { TProperties } from '@sinclair/typebox'

export const ownSettings = {} satisfies TProperties
