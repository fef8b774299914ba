/** The commands: those of the packages, with what the application hands to them, and `seed`. */
import './application.ts'
import { Command } from '@commander-js/extra-typings'
import type { Config } from '@resource-api/http/config'
import { addOwnCommands, createGroup, defineCommands, main } from '@resource-api/http/program'

const serve = new Command('serve').description('Run the server').action(async () => {
  await import('./start-server.ts')
  // The signal handlers of the server end the process.
  await new Promise(() => {})
})

/** Loads the definitions, which takes 0.2 s, only for the commands that need them. */
const loadOwn = async () => (await import('./own.ts')).own

/** Returns what records the changes of jobs. */
const loadRecorders = async (config: Config) => (await import('./resources.ts')).listRecorders(config)

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
  doctor: async () => (await loadOperation()).doctor,
  async seed() {
    await loadTables()
    return (await import('./cli/seed.ts')).seed
  },
  openapi: async () => (await import('./openapi.ts')).openapi,
  backup: async () => (await loadOperation()).backup,
  restore: async () => (await loadAccounts()).restore,
  copy: async () => (await loadOperation()).copy,
  export: async () => (await import('./cli/export.ts')).exportCommand,
  import: async () => (await import('./cli/import.ts')).importCommand,
  users: async () => createGroup('users', (await loadAccounts()).userCommands),
  async 'api-keys'() {
    const { createKeyCommands } = await loadAccounts()
    const { keyCommands, loadKeyScopes } = createKeyCommands(async (config) =>
      (await import('./resources.ts')).listAllScopes(config),
    )
    return createGroup('api-keys', keyCommands).hook('preSubcommand', loadKeyScopes)
  },
  events: async () => createGroup('events', [(await import('./cli/events.ts')).eventsTail]),
  mail: async () => createGroup('mail', (await loadAccounts()).mailCommands),
  jobs: async () => createGroup('jobs', (await loadEvents()).createJobCommands(loadOwn, loadRecorders)),
  consumers: async () => createGroup('consumers', (await loadEvents()).createConsumerCommands(loadOwn)),
  'signing-keys': async () => createGroup('signing-keys', [(await loadAccounts()).signingKeysRotate]),
})

/** Runs a command line. @returns the exit code: 0 success, 1 failure, 2 invalid command line */
export const run = (args: readonly string[]): Promise<number> => main(args, loadOwn)

/** Adds the commands of `src/own.ts`. */
export const addOwn = (load = loadOwn): Promise<void> => addOwnCommands(load)
