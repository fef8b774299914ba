/**
 * Does the work of the process: claims due rows of all kinds, makes their attempts, and stores the results. One cycle of these
 * statements runs at a time; attempts go on during it, and the results of those that end are stored by the next cycle.
 */
import { setTimeout as wait } from 'node:timers/promises'
import type { Connection, Database } from '@resource-api/database'
import { BackgroundTask } from '@resource-api/database/concurrency'
import type { FastifyBaseLogger } from 'fastify'
import { type Input, loadInputs, makeAttempt } from './attempts.ts'
import { Claims, type Held } from './claims.ts'
import { type ClaimedWork, GIVEN_BACK, type WorkKind, type WorkResult } from './kinds.ts'
import { createPollInterval, POLL_INTERVAL_MS } from './poll-interval.ts'
import { createWorkStates } from './work-states.ts'
import {
  claimNow,
  claimWork,
  createDueReader,
  createWorkPruning,
  insertWork,
  type NewWork,
  saveWork,
  type WorkState,
} from './work-store.ts'

/** Time in which results are collected before they are stored, and new rows before they are read. */
const SAVE_DELAY_MS = 5
/** Pause after a failure of the database: it doubles with each further one. */
const RETRY_DELAY_MS = 1_000
const MAX_RETRY_DELAY_MS = 8_000
/** Time in which attempts may end at a shutdown. */
const SHUTDOWN_MS = 10_000
/** For how long after a row was added a commit of this process may be that of its transaction. */
const COMMIT_WINDOW_MS = 10_000
const SHUTDOWN = 'the process shuts down'

interface Ended {
  row: ClaimedWork
  kind: WorkKind
  result: WorkResult
}

/** Where rows are added. */
export type Queue = Pick<Worker, 'enqueue' | 'hasKind'>

interface WorkerOptions {
  database: Database
  log: Pick<FastifyBaseLogger, 'info' | 'warn' | 'error'>
}

export class Worker {
  readonly #options: WorkerOptions
  readonly #kinds = new Map<string, WorkKind>()
  readonly #prunings = new Map<string, ReturnType<typeof createWorkPruning>>()
  readonly #claims: Claims
  readonly #running = new Set<Promise<unknown>>()
  readonly #poll = createPollInterval()
  readonly #task: BackgroundTask
  readonly #states: ReturnType<typeof createWorkStates>
  #readDue = createDueReader([])
  #ended: Ended[] = []
  /** Whether rows must be looked for: some may have been added. */
  #isDue = true
  /** When they are looked for next if nothing announces any: a time of `performance.now()`. */
  #nextRead = 0
  /** Rows that this process has added and not claimed yet. Those that were rolled back are among them, for some seconds. */
  #expected = 0
  #expectedUntil = 0
  #stopped: Promise<void> | undefined

  constructor(options: WorkerOptions) {
    const { log } = options
    this.#options = options
    this.#task = new BackgroundTask({
      work: () => this.#cycle(),
      getDelay: () =>
        this.#isDue || this.#ended.length > 0
          ? SAVE_DELAY_MS
          : Math.max(0, this.#nextRead - performance.now()),
      ...{ retryDelay: RETRY_DELAY_MS, maxRetryDelay: MAX_RETRY_DELAY_MS },
      onFailure: (err) => log.warn({ err }, 'work cannot be claimed, or its results stored'),
      onRecovery: () => log.info('work is done again'),
    })
    this.#states = createWorkStates({ ...options, kinds: this.#kinds, onAdded: () => this.wake() })
    this.#claims = new Claims(options.database)
  }

  start(): void {
    this.#task.start()
    this.#states.start()
  }

  /** Begins with a kind, after it has stored its row. */
  async add<Details>(kind: WorkKind<Details>): Promise<void> {
    await kind.register?.()
    this.#kinds.set(kind.name, kind)
    this.#readDue = createDueReader([...this.#kinds.values()])
    if (kind.keepDays !== undefined) this.#prunings.set(kind.name, createWorkPruning(kind, kind.keepDays))
    this.wake()
  }

  /** Looks for due rows now: some were added, or became due. */
  wake(): void {
    this.#isDue = true
    this.#task.wake()
    this.#states.touch()
  }

  /** Looks for due rows within half a second: some may have been added. */
  wakeSoon(): void {
    this.#poll.touch()
    this.#nextRead = Math.min(this.#nextRead, performance.now() + POLL_INTERVAL_MS)
    this.#task.wake()
  }

  /** Adds a row, in a transaction or by itself. @returns whether there was none with its key */
  readonly enqueue = async (connection: Connection, row: NewWork): Promise<boolean> => {
    const isNew = await insertWork(connection, row)
    if (isNew) this.#expected += 1
    this.#expectedUntil = performance.now() + COMMIT_WINDOW_MS
    // If the commit is not announced.
    this.wakeSoon()
    return isNew
  }

  /** Whether the process does work of a kind. */
  readonly hasKind = (name: string): boolean => this.#kinds.has(name)

  /** To be called after each commit in this process that may have added rows. */
  onCommit(): void {
    if (performance.now() >= this.#expectedUntil) this.#expected = 0
    if (this.#expected > 0) this.wake()
    else this.wakeSoon()
  }

  /** Whether the database did not answer. */
  get hasFailed(): boolean {
    return this.#task.hasFailed
  }

  /** Returns the state of a kind as last read, a minute ago at most; undefined while the database does not answer. */
  getState(name: string): WorkState | undefined {
    return this.hasFailed ? undefined : this.#states.get(name)
  }

  /**
   * Makes an attempt of a kind that has one row now, due or not. Of a worker that was not started.
   * @returns why it was interrupted, if it was; undefined if another process makes one
   */
  async runNow(kind: WorkKind): Promise<{ reason: unknown } | undefined> {
    await kind.register?.()
    const claimedAt = performance.now()
    const row = await claimNow(this.#options.database, kind)
    if (!row) return undefined
    const held = this.#claims.hold(row, kind, claimedAt)
    const { signal } = held.controller
    this.#end(held, await makeAttempt(this.#options, held, {}))
    while (this.#ended.length > 0) {
      try {
        await this.#save()
      } catch (error) {
        if (signal.aborted) throw error
        await wait(RETRY_DELAY_MS)
      }
    }
    return { reason: signal.reason }
  }

  /** Deletes the rows of which the time to be kept is over. */
  async prune(isWanted?: () => boolean): Promise<void> {
    for (const prune of this.#prunings.values()) await prune(this.#options.database, isWanted)
  }

  /** Claims no more, and aborts the attempts that must not delay a shutdown. */
  async pause(reason = SHUTDOWN): Promise<void> {
    const stopped = Promise.all([this.#task.stop(), this.#states.stop()])
    this.#claims.abortImpatient(reason)
    await stopped
  }

  /** Waits for the attempts that run, for ten seconds, and stores their results. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    await this.pause()
    const ended = new AbortController()
    const timeout = wait(SHUTDOWN_MS, undefined, { signal: ended.signal }).catch(() => {})
    await Promise.race([Promise.all(this.#running), timeout])
    ended.abort()
    await this.#claims.stop()
    await this.#save().catch((err) =>
      this.#options.log.warn({ err }, 'the results of work could not be stored'),
    )
    this.#claims.abortAll(SHUTDOWN)
  }

  async #cycle(): Promise<void> {
    // At the same time, since a claim needs only the slots of the attempts that have ended.
    const results = await Promise.allSettled([this.#claim(), this.#save()])
    for (const result of results) if (result.status === 'rejected') throw result.reason
  }

  /** Finds out which kinds and groups have due rows, and when others will have some. */
  async #read(): Promise<void> {
    this.#isDue = false
    const kinds = [...this.#kinds.values()]
    const interval = this.#poll.get()
    const due = kinds.length > 0 ? await this.#readDue(this.#options.database, interval) : []
    for (const { name, slots } of kinds) slots.setDue(due.filter(({ kind }) => kind === name))
    // What is due may have to wait for its turn.
    const delays = due.map(({ due_in_ms }) => (due_in_ms > 0 ? due_in_ms : POLL_INTERVAL_MS))
    // A commit since then has made the interval shorter.
    this.#nextRead = performance.now() + Math.min(interval, this.#poll.get(), ...delays)
  }

  /** Looks for due rows if it must, claims some, and begins their attempts: no more than there are slots. */
  async #claim(): Promise<void> {
    if (this.#isDue || performance.now() >= this.#nextRead) await this.#read()
    if (this.#task.isStopped) return
    const reserved = [...this.#kinds.values()].map((kind) => ({ kind, slots: kind.slots.reserve() }))
    const wanted = reserved.flatMap(({ kind, slots }) =>
      Object.entries(slots).map(([id, { count, length }]) => ({ kind, id, count: count * length })),
    )
    if (wanted.length === 0) return
    const { database, log } = this.#options
    const claimedAt = performance.now()
    let claimed: ClaimedWork[] = []
    try {
      claimed = await claimWork(database, wanted)
    } finally {
      this.#expected = Math.max(0, this.#expected - claimed.length)
      for (const { kind, slots } of reserved) {
        const rows = claimed.filter((row) => row.kind === kind.name)
        const held = rows.map((row) => this.#claims.hold(row, kind, claimedAt))
        const inputs = kind.load && rows.length > 0 ? loadInputs(log, kind, kind.load, rows) : undefined
        const byId = new Map(held.map((each) => [each.row.id, each]))
        for (const turn of kind.slots.assign(slots, rows))
          this.#track(
            this.#runTurn(
              turn.flatMap((row) => byId.get(row.id) ?? []),
              inputs,
            ),
          )
      }
    }
  }

  #track(work: Promise<unknown>): void {
    this.#running.add(work)
    void work.finally(() => this.#running.delete(work))
  }

  /** Makes the attempts of one slot one after the other, and gives back the rows that must not follow there. */
  async #runTurn(
    turn: readonly Held[],
    loading: Promise<ReadonlyMap<string, Input>> | undefined,
  ): Promise<void> {
    const [first] = turn
    if (!first) return
    const { slots } = first.kind
    const { group } = first.row
    const inputs = await loading
    let isNext = !this.#task.isStopped
    for (const held of turn) {
      const input = inputs ? inputs.get(held.row.id) : {}
      if (!isNext || !input)
        this.#end(held, { ...GIVEN_BACK, delayMs: inputs?.size === 0 ? RETRY_DELAY_MS : 0 })
      else {
        const result = await makeAttempt(this.#options, held, input)
        this.#end(held, result)
        const { outcome, status } = result
        const mayFollow = !outcome || slots.record(group, status === 'succeeded', outcome.durationMs)
        isNext = mayFollow && !this.#task.isStopped
      }
    }
    slots.release(group)
    this.wakeSoon()
  }

  #end(held: Held, result: WorkResult): void {
    this.#claims.drop(held)
    this.#ended.push({ row: held.row, kind: held.kind, result })
    this.#task.wake()
  }

  /** Stores what has ended. After a failure, the next cycle stores the results. */
  async #save(): Promise<void> {
    const { database, log } = this.#options
    if (this.#ended.length === 0) return
    await this.#claims.waitForRenewal()
    const ended = this.#ended
    this.#ended = []
    let saved: ReadonlySet<string>
    try {
      saved = await saveWork(database, ended)
    } catch (error) {
      this.#ended = [...ended, ...this.#ended]
      throw error
    }
    this.#states.touch()
    const kinds = new Map<WorkKind, Ended[]>()
    for (const each of ended) {
      const { row, kind } = each
      if (!saved.has(row.id))
        log.warn(
          { kind: kind.name, id: row.id },
          'a result could not be stored: the claim was lost, or the row deleted',
        )
      kinds.set(kind, [...(kinds.get(kind) ?? []), each])
    }
    for (const [kind, results] of kinds) {
      try {
        await kind.afterSave?.(results)
      } catch (err) {
        log.error({ err, kind: kind.name }, 'what follows the results of work has failed')
      }
    }
  }
}
