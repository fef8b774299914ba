/** A process of a project with work, a consumer and a job, which write into a table what they do. Run by `processes.test.ts`. */
import { setTimeout as wait } from 'node:timers/promises'
import { buildApp } from '../../../../src/app.ts'
import type { Param } from '../../../database/src/client/index.ts'
import { newId } from '../../../database/src/lib/ids.ts'
import { readConfig } from '../../../http/src/config/read-config.ts'
import type { OwnContext } from '../../src/background/own-work.ts'
import { defineConsumer } from '../../src/consumers/definition.ts'
import { defineJob } from '../../src/jobs/definition.ts'
import { defineWork } from '../../src/work/definition.ts'

const WORK_MS = 20

/**
 * Stores the beginning and the end of work, with the process. A statement that waited for a connection until the claim was
 * lost is rolled back: another process may have begun.
 */
async function work({ database, signal }: OwnContext, name: string, position: number): Promise<void> {
  const run = newId()
  const store = (statement: string, ...values: Param[]) =>
    database.transaction(async (tx) => {
      await tx.run(statement, [run, ...values])
      signal.throwIfAborted()
    })
  await store(
    'insert into work_done (run, name, position, pid, begun_at) values ($1, $2, $3, $4, clock_timestamp())',
    name,
    position,
    process.pid,
  )
  await wait(WORK_MS)
  await store('update work_done set ended_at = clock_timestamp() where run = $1')
}

declare module '../../../resources/src/definition/work.ts' {
  interface WorkPayloads {
    parcel: { number: number }
  }
}

const parcel = defineWork({
  name: 'parcel',
  schedule: ['1s', '1s', '1s', '1s'],
  async run({ number }, context) {
    await work(context, 'work', number)
    // Waits for its next attempt when a process is killed.
    if (number % 10 === 0 && context.attempts < 3) throw new Error('no courier')
  },
})
const consumer = defineConsumer({
  name: 'mails',
  types: ['users.created'],
  handle: ({ position }, context) => work(context, 'consumer', position),
})
let runs = 0
const job = defineJob({ name: 'report', every: '1s', run: (context) => work(context, 'job', ++runs) })

const app = await buildApp(readConfig(), {
  own: { work: [parcel], consumers: [consumer], jobs: [job] },
  leaseMs: Number(process.argv[2]),
})
await app.listen({ port: 0, host: '127.0.0.1' })
console.log('ready')
process.on('SIGTERM', () => void app.close().then(() => process.exit(0)))
