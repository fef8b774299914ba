/** A process of a project with a consumer and a job, which write into a table what they do. Run by `processes.test.ts`. */
import { setTimeout as wait } from 'node:timers/promises'
import type { WorkContext } from '../../plugins/background/own-work.ts'
import { defineConsumer } from '../../plugins/consumers/definition.ts'
import { defineJob } from '../../plugins/jobs/definition.ts'
import { buildApp } from '../../src/app.ts'
import { readConfig } from '../../src/config.ts'

const WORK_MS = 20

/** Stores the beginning and the end of work, with the process. */
async function work({ database }: WorkContext, name: string, position: number): Promise<void> {
  const values = [name, position, process.pid]
  await database.run(
    'insert into work_done (name, position, pid, begun_at) values ($1, $2, $3, clock_timestamp())',
    values,
  )
  await wait(WORK_MS)
  await database.run(
    `update work_done set ended_at = clock_timestamp()
     where name = $1 and position = $2 and pid = $3 and ended_at is null`,
    values,
  )
}

const consumer = defineConsumer({
  name: 'mails',
  types: ['users.created'],
  handle: ({ position }, context) => work(context, 'consumer', position),
})
let runs = 0
const job = defineJob({ name: 'report', every: '1s', run: (context) => work(context, 'job', ++runs) })

const app = await buildApp(readConfig(), {
  own: { consumers: [consumer], jobs: [job] },
  leaseMs: Number(process.argv[2]),
})
await app.listen({ port: 0, host: '127.0.0.1' })
console.log('ready')
process.on('SIGTERM', () => void app.close().then(() => process.exit(0)))
