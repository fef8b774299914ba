/** The settings that the project adds to those of the product, by the functions of `setting-types.ts`. */
import type { TProperties } from '@sinclair/typebox'
import { text } from './setting-types.ts'

export const ownSettings = {
  SMTP_URL: text('The URL of the mail server.', { default: 'smtp://127.0.0.1:1025', secret: true }),
} satisfies TProperties
