/** Runs the jobs of the project at their times, each in one process at a time. Without jobs, it does nothing. */
import { createClaimWorker } from '@resource-api/http/internal'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { checkUnique } from '../background/own-work.ts'
import type { Job } from './definition.ts'
import { type JobState, readStates, register } from './job-store.ts'
import { createJobRunner } from './runner.ts'

export interface JobsOptions {
  jobs: readonly Job[]
  /** The clock of schedules, in milliseconds since the epoch. */
  now?: () => number
  /** How long a claim lasts that is not renewed. */
  leaseMs?: number | undefined
}

interface Jobs {
  /** Looks for due jobs now. */
  wake(): void
  /** Returns the stored states, as last read; undefined after a failure. */
  getStates(): readonly JobState[] | undefined
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Undefined without jobs. */
    jobs: Jobs | undefined
  }
}

async function jobsPlugin(app: FastifyInstance, { jobs, now = Date.now, leaseMs }: JobsOptions) {
  app.decorate('jobs', undefined)
  if (jobs.length === 0) return
  checkUnique('jobs', jobs)
  const { database, log, mail, outbox, settings } = app
  const runner = createJobRunner({ database, log, mail, settings, ...outbox, jobs, now, leaseMs })
  let states: readonly JobState[] = []

  const worker = createClaimWorker({
    log,
    title: 'jobs',
    async claimDue() {
      const readAt = now()
      states = await readStates(database, jobs)
      // Rows are missing in a database that was restored from an older backup.
      if (states.length < jobs.length) {
        await register(database, jobs, readAt)
        states = await readStates(database, jobs)
      }
      const due = states.filter(
        ({ next_run_ms, leased_for_ms }) => next_run_ms <= readAt && (leased_for_ms ?? 0) <= 0,
      )
      const claimed =
        due.length > 0
          ? await runner.claim(
              due.map(({ name }) => name),
              true,
            )
          : []
      const isClaimed = (wanted: string) => claimed.some(({ name }) => name === wanted)
      const delays = states.map(({ name, next_run_ms, leased_for_ms }) =>
        Math.max(next_run_ms - readAt, leased_for_ms ?? 0, isClaimed(name) ? runner.leaseMs : 0),
      )
      return { claimed, dueInMs: Math.min(...delays) }
    },
    run: async (claimed, stopping) => void (await runner.run(claimed, stopping)),
  })

  app.jobs = { wake: worker.wake, getStates: () => (worker.hasFailed() ? undefined : states) }
  app.addHook('onReady', async () => {
    await register(database, jobs, now())
    worker.start()
  })
  app.addHook('preClose', worker.pause)
  // Fastify runs onClose hooks in reverse order, so this one runs before the database closes.
  app.addHook('onClose', worker.stop)
}

export default fp(jobsPlugin, { name: 'jobs', dependencies: ['database', 'mail', 'outbox'] })
