/** A setting that docs/jobs.md names and the application does not have. Imported before the modules that read the settings. */
import { text } from '@resource-api/http/settings'
import { application } from '../../../../src/application.ts'

Object.assign(application.settings, {
  WAREHOUSE_URL: text('The URL of the warehouse.', { format: 'http-url', default: 'http://localhost:8080' }),
})
