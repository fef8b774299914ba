/** The commands: those of the packages, with what the application hands to them. */
import './application.ts'
import { Command } from '@commander-js/extra-typings'
import type { Config } from '@resource-api/http/config'
import { addOwnCommands, createGroup, defineCommands, main } from '@resource-api/http/program'

/** Loads the service, which takes 0.5 s, only for the commands that need it. */
const loadApp = async () => (await import('./app.ts')).buildApp

/** Loads the definitions, which takes 0.2 s. */
const loadOwn = async () => (await import('./own.ts')).own
const loadResources = () => import('./resources.ts')

/** Returns what records the changes of jobs. */
const loadRecorders = async (config: Config) => (await loadResources()).listRecorders(config)

const serve = new Command('serve').description('Run the server').action(async () => {
  const { runServer } = await import('@resource-api/http/process')
  await runServer(async (config) => (await loadApp())(config))
  // The signal handlers of the server end the process.
  await new Promise(() => {})
})

const loadTables = () => import('../drizzle/index.ts')

const loadAccounts = async () => {
  await loadTables()
  return import('@resource-api/accounts/commands')
}
const loadEvents = async () => {
  await loadTables()
  return import('@resource-api/events/commands')
}
const loadOperation = async () => {
  await loadTables()
  return import('@resource-api/http/commands')
}

// All of them take half a second to load.
defineCommands({
  serve: () => serve,
  migrate: async () => (await loadOperation()).migrate,
  doctor: async () => (await loadAccounts()).doctor,
  seed: async () => (await loadEvents()).createSeedCommand(() => import('./demo-data.ts')),
  async openapi() {
    const { createOpenapiCommand } = await import('@resource-api/docs/commands')
    return createOpenapiCommand(loadApp, (await loadResources()).versionNumbers)
  },
  backup: async () => (await loadOperation()).backup,
  restore: async () => (await loadAccounts()).restore,
  copy: async () => (await loadOperation()).copy,
  export: async () => (await loadEvents()).exportCommand,
  import: async () => (await loadEvents()).importCommand,
  users: async () => createGroup('users', (await loadAccounts()).userCommands),
  async 'api-keys'() {
    const { createKeyCommands } = await loadAccounts()
    const { keyCommands, loadKeyScopes } = createKeyCommands(async (config) =>
      (await loadResources()).listAllScopes(config),
    )
    return createGroup('api-keys', keyCommands).hook('preSubcommand', loadKeyScopes)
  },
  events: async () => createGroup('events', [(await loadEvents()).eventsTail]),
  mail: async () => createGroup('mail', (await loadAccounts()).mailCommands),
  jobs: async () => createGroup('jobs', (await loadEvents()).createJobCommands(loadOwn, loadRecorders)),
  work: async () => createGroup('work', (await loadEvents()).workCommands),
  consumers: async () => createGroup('consumers', (await loadEvents()).createConsumerCommands(loadOwn)),
  'signing-keys': async () => createGroup('signing-keys', [(await loadAccounts()).signingKeysRotate]),
})

/** Runs a command line. @returns the exit code: 0 success, 1 failure, 2 invalid command line */
export const run = (args: readonly string[]): Promise<number> => main(args, loadOwn)

/** Adds the commands of `src/own.ts`. */
export const addOwn = (load = loadOwn): Promise<void> => addOwnCommands(load)
