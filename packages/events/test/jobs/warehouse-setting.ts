/** The settings that docs/adopters/jobs.md names and the application does not have. Imported before the modules that read the settings. */
import { text } from '@resource-api/http/settings'
import { application } from '../../../../src/application.ts'

Object.assign(application.settings, {
  PAYMENTS_URL: text('The URL of the payment provider.', {
    format: 'http-url',
    default: 'http://localhost:8081',
  }),
  WAREHOUSE_URL: text('The URL of the warehouse.', { format: 'http-url', default: 'http://localhost:8080' }),
})
