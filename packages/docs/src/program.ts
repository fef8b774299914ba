/** The command line of an application: the commands of all packages, which are loaded when they run, and its own. */
import { Command } from '@commander-js/extra-typings'
import { addOwnCommands, createGroup, defineCommands, main } from '@resource-api/cli'
import type { Database } from '@resource-api/database'
import type { describeApplication, Own } from '@resource-api/events'
import type { createSeedCommand } from '@resource-api/events/commands'
import type { Config } from '@resource-api/http/config'
import type { FastifyInstance } from 'fastify'

/** Loads the modules of the application, each only for the commands that need it. */
export interface ApplicationLoaders {
  loadTables(): Promise<unknown>
  /** It takes 0.5 s. */
  loadApp(): Promise<(config: Config, overrides?: { database?: Database }) => Promise<FastifyInstance>>
  /** It takes 0.2 s. */
  loadOwn(): Promise<Own>
  loadResources(): Promise<
    Pick<ReturnType<typeof describeApplication>, 'listAllScopes' | 'listRecorders'> & {
      versionNumbers: readonly number[]
    }
  >
  /** Without it, there is no command `seed`. */
  loadDemoData?: Parameters<typeof createSeedCommand>[0]
}

async function createServe(loadApp: ApplicationLoaders['loadApp']) {
  const { describeSettings } = await import('@resource-api/http/config')
  const serve = new Command('serve').description('Run the server').action(async () => {
    const { runServer } = await import('@resource-api/http/process')
    await runServer(async (config) => (await loadApp())(config))
    // The signal handlers of the server end the process.
    await new Promise(() => {})
  })
  return serve.addHelpText('after', () => {
    const help = serve.createHelp()
    const settings = describeSettings()
    const width = Math.max(...settings.map(({ name }) => name.length))
    const items = settings.map((each) => {
      const meaning = each.default ? `${each.meaning} Default: ${each.default}.` : each.meaning
      return help.formatItem(each.name, width, meaning, help)
    })
    return ['', 'Environment variables:', ...items].join('\n')
  })
}

/** Defines the commands, in the order of the help. */
export function createCommandLine(application: ApplicationLoaders) {
  const { loadTables, loadApp, loadOwn, loadResources, loadDemoData } = application
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
    return import('@resource-api/cli/commands')
  }
  /** Returns what records the changes of jobs. */
  const loadRecorders = async (config: Config) => (await loadResources()).listRecorders(config)

  // All of them take half a second to load.
  defineCommands({
    serve: () => createServe(loadApp),
    migrate: async () => (await loadOperation()).migrate,
    doctor: async () => (await loadAccounts()).doctor,
    ...(loadDemoData && { seed: async () => (await loadEvents()).createSeedCommand(loadDemoData) }),
    async openapi() {
      const { createOpenapiCommand } = await import('./commands/index.ts')
      return createOpenapiCommand(loadApp, (await loadResources()).versionNumbers)
    },
    async access() {
      const { createAccessCommand } = await import('./commands/index.ts')
      return createAccessCommand(loadApp)
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
  return {
    /** Runs a command line. @returns the exit code: 0 success, 1 failure, 2 invalid command line */
    run: (args: readonly string[]): Promise<number> => main(args, loadOwn),
    /** Adds the commands of the application. */
    addOwn: (load: Parameters<typeof addOwnCommands>[0] = loadOwn): Promise<void> => addOwnCommands(load),
  }
}
