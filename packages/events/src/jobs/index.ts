/** Runs the jobs of the project at their times, each in one process at a time. Without jobs, it does nothing. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { checkUnique, getWorkOptions } from '../background/own-work.ts'
import type { Job } from './definition.ts'
import { createJobKind, type JobState, toJobKind } from './kind.ts'

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
  /** Returns the stored states by name, as last read; none while the database does not answer. */
  getStates(): [name: string, state: JobState][]
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
  const kinds = jobs.map((job) => createJobKind(job, { ...getWorkOptions(app), now, leaseMs }))
  app.jobs = {
    wake: () => app.work.wake(),
    getStates: () =>
      jobs.flatMap(({ name }) => {
        const payload = app.work.getState(toJobKind(name))?.payload
        // The row was written by the kind.
        return payload ? [[name, payload as JobState]] : []
      }),
  }
  app.addHook('onReady', async () => {
    for (const kind of kinds) await app.work.add(kind)
  })
}

export default fp(jobsPlugin, { name: 'jobs', dependencies: ['database', 'mail', 'outbox', 'work'] })
