/**
 * Serves with several processes on one port. The primary process starts the others, starts one again that ends, replaces
 * them one after another on SIGUSR2, and ends with them. It answers no request itself.
 */
import cluster, { type Worker } from 'node:cluster'
import { setTimeout as wait } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { listOwnSecrets } from '../config/all-settings.ts'
import type { Config } from '../config/settings.ts'
import { createLogger } from '../observability/logging/index.ts'
import { SHUTDOWN_TIMEOUT_MS, watchSignals } from './signals.ts'
import { readField } from './worker-messages.ts'

export const { isPrimary } = cluster

/** Before a worker process is started again: it doubles while they end soon. */
const RESTART_DELAY_MS = 1_000
const MAX_RESTART_DELAY_MS = 30_000
/** A worker process that has run for so long did not end soon. */
const STABLE_MS = 60_000
/** A worker process ends itself at the end of its time, unless its event loop is blocked. */
const KILL_MARGIN_MS = 2_000

const REPLACE = 'replace'

/** Resolves when the process serves the port. */
const readAddress = (worker: Worker): Promise<string> =>
  new Promise((resolve) => {
    worker.on('message', (message: unknown) => {
      const address = readField(message, 'address')
      if (typeof address === 'string') resolve(address)
    })
  })

const waitForExit = (worker: Worker): Promise<void> =>
  new Promise((resolve) => {
    if (worker.isDead()) resolve()
    else worker.once('exit', () => resolve())
  })

class WorkerProcesses {
  readonly #log: Logger
  /** Milliseconds that a worker process has for its shutdown. */
  readonly #shutdownMs: number
  /** The processes that serve the port. */
  readonly serving = new Set<Worker>()
  readonly #replaced = new Set<Worker>()
  isEnding = false
  #isReplacing = false

  constructor(log: Logger, { SHUTDOWN_DELAY }: Config) {
    this.#log = log
    this.#shutdownMs = SHUTDOWN_DELAY + SHUTDOWN_TIMEOUT_MS + KILL_MARGIN_MS
  }

  /**
   * Starts a process, and waits until it serves the port.
   * @param endings how many ended soon in its place
   * @returns its address
   * @throws Error if it ends before
   */
  async start(endings = 0): Promise<string> {
    if (this.isEnding) throw new Error('the service shuts down')
    const worker = cluster.fork()
    // A process that is gone cannot be sent anything; its end is handled.
    worker.on('error', () => {})
    const ended = waitForExit(worker)
    const address = await Promise.race([readAddress(worker), ended.then(() => undefined)])
    if (address === undefined) throw new Error(`the worker process ${worker.process.pid} cannot start`)
    const startedAt = performance.now()
    this.serving.add(worker)
    void ended.then(() => {
      this.serving.delete(worker)
      if (this.isEnding || this.#replaced.delete(worker)) return
      const { pid, exitCode, signalCode } = worker.process
      const fields = { worker_pid: pid, exit_code: exitCode, signal: signalCode }
      this.#log.error(fields, 'a worker process has ended: another one is started')
      void this.#restart(performance.now() - startedAt < STABLE_MS ? endings + 1 : 1)
    })
    return address
  }

  /** Starts a process in the place of one that has ended. */
  async #restart(endings: number): Promise<void> {
    await wait(Math.min(MAX_RESTART_DELAY_MS, RESTART_DELAY_MS * 2 ** (endings - 1)))
    if (this.isEnding) return
    try {
      await this.start(endings)
    } catch (err) {
      if (this.isEnding) return
      this.#log.error({ err }, 'a worker process cannot start: it is tried again')
      await this.#restart(endings + 1)
    }
  }

  /** Replaces the processes one after another. Each one ends when the next one serves the port. */
  async replaceAll(): Promise<void> {
    if (this.#isReplacing || this.isEnding) return
    this.#isReplacing = true
    this.#log.info('replacing the worker processes')
    try {
      for (const worker of [...this.serving]) await this.#replace(worker)
      this.#log.info('the worker processes are replaced')
    } catch (err) {
      if (!this.isEnding)
        this.#log.error({ err }, 'the worker processes are not replaced: those that serve go on')
    } finally {
      this.#isReplacing = false
    }
  }

  async #replace(worker: Worker): Promise<void> {
    if (this.isEnding || !this.serving.has(worker)) return
    this.#replaced.add(worker)
    try {
      await this.start()
    } catch (error) {
      this.#replaced.delete(worker)
      if (!this.serving.has(worker)) void this.#restart(1)
      throw error
    }
    if (this.isEnding || !this.serving.has(worker)) return
    worker.send(REPLACE)
    await this.#waitForEnd(worker)
  }

  /** Ends all processes, each as a single one ends. @throws Error if one has not ended in time or as it should */
  async drain(): Promise<void> {
    this.isEnding = true
    const failed: unknown[] = []
    await Promise.all(
      Object.values(cluster.workers ?? {}).map(async (worker) => {
        if (!worker) return
        const isServing = this.serving.has(worker)
        worker.process.kill('SIGTERM')
        const code = await this.#waitForEnd(worker)
        if (isServing && code !== 0) failed.push(worker.process.pid)
      }),
    )
    if (failed.length > 0)
      throw new Error(`of the worker processes, ${failed.join(', ')} did not end as they should`)
  }

  async #waitForEnd(worker: Worker): Promise<unknown> {
    const timer = setTimeout(() => worker.process.kill('SIGKILL'), this.#shutdownMs)
    await waitForExit(worker)
    clearTimeout(timer)
    return worker.process.exitCode
  }
}

/**
 * Starts the worker processes, one after another: what keeps one from starting keeps all, and is said once. In that case
 * it ends this process with exit code 1.
 * @returns the address of the port
 */
export async function startWorkers(config: Config): Promise<{ log: Logger; address: string }> {
  const signals = watchSignals()
  const log = await createLogger({ ...config, ownSecrets: listOwnSecrets() })
  const workers = new WorkerProcesses(log, config)
  // Whatever ends this process: none goes on without it.
  process.on('exit', () => {
    for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill('SIGKILL')
  })
  if (config.METRICS_PORT !== undefined || config.METRICS_TOKEN !== undefined) {
    const { addUpMetrics } = await import('../observability/metrics/worker-metrics.ts')
    addUpMetrics(workers.serving)
  }
  // The worker process has said why.
  const start = () =>
    workers.start().catch((): Promise<string> => (workers.isEnding ? new Promise(() => {}) : process.exit(1)))
  const address = await start()
  signals.drain({ drain: () => workers.drain(), log }, config.SHUTDOWN_DELAY)
  process.on('SIGUSR2', () => void workers.replaceAll())
  for (let i = 1; i < config.WORKERS; i += 1) await start()
  if (config.REDIS_URL === undefined)
    log.warn(
      { workers: config.WORKERS },
      'without REDIS_URL each worker process counts rate limits by itself: together they admit several times the limits',
    )
  return { log, address }
}

/** In a worker process: says that it serves the port, and ends when another one takes its place. */
export function followPrimary(app: FastifyInstance, address: string): void {
  process.on('message', (message) => {
    if (message !== REPLACE) return
    app.isReplaced = true
    process.kill(process.pid, 'SIGTERM')
  })
  process.send?.({ address })
}
