/** Stops, kills and freezes a PostgreSQL under load, and measures what clients observe. */
import { setTimeout as wait } from 'node:timers/promises'
import { type Owner, testFolder } from '../helpers/database.ts'
import { startPrivatePostgres } from './private-postgres.ts'
import { startProductLoad } from './product-load.ts'
import { failIf, printViolations, summarize } from './report.ts'
import { startSoakServer } from './server.ts'

const CLIENTS = 8
/** Load before and after each outage. */
const LOAD_MS = 2_000

export async function soakOutages(t: Owner): Promise<void> {
  console.log(`a PostgreSQL that is restarted, killed and frozen under the load of ${CLIENTS} clients`)
  const postgres = await startPrivatePostgres(t)
  const { admin } = await startSoakServer(t, { DATABASE_URL: postgres.url, DATA_DIR: testFolder(t) })

  /** @param causeOutage resolves when PostgreSQL is running again */
  const measureOutage = async (name: string, causeOutage: () => Promise<void>) => {
    const stop = startProductLoad(admin, { clients: CLIENTS, sku: name.replace(/\W+/g, '-'), pause: 10 })
    await wait(LOAD_MS)
    await causeOutage()
    const returnedAt = performance.now()
    while ((await admin.get('/readyz')).status !== 200) await wait(20)
    const back = performance.now() - returnedAt
    await wait(LOAD_MS)
    const { answered, unavailable, failed, times, written, lost } = await stop()
    console.log(
      `  ${name}: ${answered} answered, ${unavailable} refused (503), ${failed.length} otherwise;` +
        ` slowest ${summarize(times).max.toFixed(0)} ms; ready ${back.toFixed(0)} ms after PostgreSQL returned;` +
        ` ${written} writes acknowledged, ${lost} lost`,
    )
    printViolations(failed)
    failIf(lost > 0)
  }

  for (const [mode, signal] of [['fast', 'SIGINT'] as const, ['immediate', 'SIGQUIT'] as const]) {
    await measureOutage(`stopped (${mode}) for 4000 ms and started`, async () => {
      await postgres.stop(signal)
      await wait(4_000)
      await postgres.start()
    })
  }
  await measureOutage('all processes killed (-9), then started', async () => {
    await postgres.kill()
    await wait(1_000)
    await postgres.start()
  })
  await measureOutage('frozen (SIGSTOP) for 9000 ms', async () => {
    postgres.signalAll('SIGSTOP')
    await wait(9_000)
    postgres.signalAll('SIGCONT')
  })
}
