/** `jobs list` and `jobs run`: show the jobs of the project, and run one now. */

import { Argument, Command } from '@commander-js/extra-typings'
import {
  createMailBox,
  createMailEnqueue,
  isMailConfigured,
  loadMailTools,
} from '@resource-api/accounts/internal'
import { jsonOption, printRows, UsageError, withDatabase, withMigratedDatabase } from '@resource-api/cli'
import { isAnyOf } from '@resource-api/database'
import { work } from '@resource-api/database/tables'
import {
  type Config,
  listOwnSecrets,
  loadAppSecret,
  pickOwnSettings,
  readConfig,
} from '@resource-api/http/config'
import { createPinoOptions } from '@resource-api/http/internal'
import { logStrayRejections } from '@resource-api/http/process'
import type { Recorders } from '@resource-api/resources/internal'
import { insertWork, Worker } from '@resource-api/work'
import { asc } from 'drizzle-orm'
import { pino } from 'pino'
import type { OwnContext } from '../background/own-work.ts'
import type { Own } from '../define-own.ts'
import { createJobKind, toJobKind } from '../jobs/kind.ts'

type LoadJobs = () => Promise<Pick<Own, 'jobs'>>
/** Returns what records the changes of jobs. */
type LoadRecorders = (config: Config) => Promise<Recorders>

const COLUMNS = ['name', 'schedule', 'next_run_at', 'last_started_at', 'last_result', 'failures', 'error']

const NEVER_RUN = { last_started_at: null, last_duration_ms: null, last_result: null, last_success_at: null }

const createList = (load: LoadJobs) =>
  new Command('list')
    .description('List the jobs of the project, with their latest run')
    .addOption(jsonOption)
    .addHelpText(
      'after',
      `
A job that no server and no 'jobs run' has known yet is not listed. Times are in UTC. Servers may run at the same time.`,
    )
    .action(async ({ json }) => {
      const names = (await load()).jobs.map((each) => each.name)
      await withMigratedDatabase(readConfig(), (database) =>
        printRows(json, COLUMNS, async () => {
          const rows = await database
            .select({ key: work.key, payload: work.payload, error: work.error })
            .from(work)
            .where(isAnyOf(work.kind, names.map(toJobKind)))
            .orderBy(asc(work.kind))
          return rows.map(({ key, payload, error }) => ({ name: key, ...NEVER_RUN, ...payload, error }))
        }),
      )
    })

/** Returns what enqueues the mails of a job, which a running server sends; undefined if no mails are sent. */
async function createMails(config: Config): Promise<OwnContext['mail']> {
  if (!isMailConfigured(config)) return undefined
  const secretBox = createMailBox({ ...config, APP_SECRET: await loadAppSecret(config) })
  return { enqueue: createMailEnqueue(await loadMailTools(), secretBox) }
}

/** Runs a job until it ends, or Ctrl-C aborts it. @throws Error if another process runs it */
async function runNow(
  name: string,
  load: LoadJobs,
  loadRecorders: LoadRecorders,
): Promise<{ result: 'succeeded' | 'failed' | 'interrupted'; error: unknown; durationMs: number }> {
  const { jobs } = await load()
  const job = jobs.find((each) => each.name === name)
  if (!job)
    throw new UsageError(
      jobs.length === 0
        ? 'src/own.ts lists no jobs'
        : `There is no job "${name}"; the jobs are ${jobs.map((each) => each.name).join(', ')}`,
    )
  const config = readConfig()
  const recorders = await loadRecorders(config)
  return withDatabase(config, async (database) => {
    // Standard output has the result only.
    const log = pino({ ...createPinoOptions(listOwnSecrets()), level: config.LOG_LEVEL }, pino.destination(2))
    const settings = pickOwnSettings(config)
    const queue = { enqueue: insertWork, hasKind: () => true }
    const mail = await createMails(config)
    const options = { database, log, mail, settings, now: Date.now, recorders, queue, publish() {} }
    let outcome: { result: 'succeeded' | 'failed'; error?: unknown } | undefined
    const kind = createJobKind(job, { ...options, isByHand: true, onEnd: (ended) => (outcome = ended) })
    const worker = new Worker({ database, log })
    const stop = () => void worker.pause('the command was interrupted')
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop)
    const stopLogging = logStrayRejections(log)
    const startedAt = performance.now()
    try {
      const attempt = await worker.runNow(kind)
      if (!attempt) throw new Error(`The job "${name}" is being run by another process`)
      const durationMs = Math.round(performance.now() - startedAt)
      return { ...{ result: 'interrupted', error: attempt.reason }, ...outcome, durationMs }
    } finally {
      stopLogging()
      for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, stop)
    }
  })
}

const createRun = (load: LoadJobs, loadRecorders: LoadRecorders) =>
  new Command('run')
    .description('Run a job now, in this process')
    .addArgument(new Argument('<name>', 'The name of the job'))
    .addOption(jsonOption)
    .addHelpText(
      'after',
      `
Runs the job even if it is not due, unless another process runs it now; the next time stays as it is. The result is
stored as that of every run. Standard error has the log of the job. The exit code is 1 if the job fails. Servers may run
at the same time.`,
    )
    .action(async (name, { json }) => {
      const { result, error, durationMs } = await runNow(name, load, loadRecorders)
      if (json) console.log(JSON.stringify({ name, result, duration_ms: durationMs }))
      if (result === 'failed') throw new Error(`The job "${name}" failed`, { cause: error })
      if (result === 'interrupted') throw new Error(`The job "${name}" was interrupted`, { cause: error })
      if (!json) console.log(`The job "${name}" succeeded in ${(durationMs / 1000).toFixed(1)} s`)
    })

/** @param load returns the jobs of the project */
export const createJobCommands = (load: LoadJobs, loadRecorders: LoadRecorders) => [
  createList(load),
  createRun(load, loadRecorders),
]
