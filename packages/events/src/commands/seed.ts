/** `seed`: creates the demo data of the application, through the HTTP API. */
import { Command } from '@commander-js/extra-typings'
import { jsonOption, printResult, readServerOptions, type ServerOptions, urlOption } from '@resource-api/cli'
import { type BatchOperation, createClient } from '@resource-api/client'
import { identity } from '@resource-api/database'
import { explain } from './collection-rows.ts'

type LoadDemoData = () => Promise<{ demoData: readonly BatchOperation[] }>

/** Returns how many resources of each collection the operations create. */
function countCreations(operations: readonly BatchOperation[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { method, path } of operations) {
    const name = path.slice(path.lastIndexOf('/') + 1)
    if (method === 'POST') counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

export const createSeedCommand = (load: LoadDemoData) =>
  new Command('seed')
    .description('Create the demo data on a running server, all or nothing')
    .addOption(urlOption)
    .option('--key <key>', `An API key of an admin (default: ${identity.keyVariable})`)
    .addOption(jsonOption)
    .addHelpText(
      'after',
      `
Sends the operations of src/demo-data.ts as one batch: the rules of the API apply, and each row has its event. The demo
users have no passwords, and get no mail. A second run creates nothing, because the email addresses are taken.`,
    )
    .action(async ({ json, ...server }: ServerOptions & { json?: true }) => {
      const options = readServerOptions(server)
      const client = createClient(options)
      const { demoData } = await load()
      try {
        await client.batch(demoData)
      } catch (error) {
        throw explain(error, options.baseUrl)
      }
      const added = countCreations(demoData)
      const amounts = Object.entries(added).map(([name, count]) => `${count} ${name}`)
      printResult(json, { added }, `Created ${amounts.join(', ')}`)
    })
