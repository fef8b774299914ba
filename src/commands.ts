/** The command line: the commands of the packages, with what the application hands to them, and its own. */
import './application.ts'
import { createCommandLine } from '@resource-api/docs/program'

export const { run, addOwn } = createCommandLine({
  loadTables: () => import('../drizzle/index.ts'),
  loadApp: async () => (await import('./app.ts')).buildApp,
  loadOwn: async () => (await import('./own.ts')).own,
  loadResources: () => import('./resources.ts'),
  loadDemoData: () => import('./demo-data.ts'),
})
