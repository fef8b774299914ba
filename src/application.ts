/** What the application declares of itself. Each of its processes imports this module before those that load the packages. */
import { defineApplication } from '@resource-api/database/application'

export const application = defineApplication({
  name: 'resource-api',
  clientPackage: '@resource-api/client',
  roles: ['member', 'manager', 'admin'],
  staff: ['manager'],
  violations: { INSUFFICIENT_STOCK: 'The product has too little stock: order fewer' },
  settings: {},
  url: import.meta.url,
  templates: 'templates',
})

declare module '@resource-api/database/application' {
  interface Registered {
    application: typeof application
  }
}
