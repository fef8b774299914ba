/** Settings of an application, one of each type. Imported before the modules that read them. */
import { flag, limit, list, number, oneOf, optional, text } from '@resource-api/http/settings'
import { application } from '../../../../src/application.ts'

Object.assign(application.settings, {
  CLINIC_MAIL_FROM: text('The sender of mails.', { format: 'email', default: 'clinic@example.com' }),
  CLINIC_MAIL_URL: optional('The URL of the mail server.', { format: 'http-url', secret: true }),
  CLINIC_MAIL_CODE: optional('The code of the mail server.', { secret: true, minLength: 8 }),
  CLINIC_ROOMS: list('The rooms.', { minLength: 2 }),
  CLINIC_IS_OPEN: flag('Whether patients can make appointments.'),
  CLINIC_S3_PARTS: number('The number of parts of an upload.', 4, 1, 8, 6),
  CLINIC_PATIENTS: limit('The maximum number of patients.', 500),
  CLINIC_LANGUAGE: oneOf('The language of mails.', 'en', ['en', 'de']),
  WAREHOUSE_URL: text('The URL of the warehouse.', { format: 'http-url', default: 'http://localhost:8080' }),
})
