/**
 * Admission control: limits how many requests are processed concurrently and how many wait, and responds 503 immediately
 * to requests that an overloaded server could not answer in time.
 *
 * Requests wait before Fastify sees them, where each is only the object of Node's parser. With the objects that Fastify
 * and the database add, many waiting requests would keep the garbage collector busy.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { disconnected, getLifetime, hasBody } from '@resource-api/api/requests'
import { Semaphore } from '@resource-api/database/concurrency'
import type { FastifyInstance, preParsingHookHandler, preValidationHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { createRefusalReporter, overloaded, type Reason, refuse } from './refusal.ts'

export interface AdmissionOptions {
  /** Requests that may be processed concurrently. Default: one for each database connection, and those that are prepared. */
  maxActive?: number
  /** Requests that may wait. */
  maxWaiting?: number
  /** The delay of the event loop beyond which requests are refused. */
  maxLoopDelayMs?: number | undefined
  /** The longest expected wait with which a request is admitted. After twice this time, a waiting request is refused. */
  maxWaitMs?: number | undefined
}

/** Requests that are prepared while all database connections are used. */
const MAX_PREPARED = 118
const DEFAULT_MAX_WAITING = 882

const DEFAULT_MAX_WAIT_MS = 1_000
/** The event loop's delay is the longest one within a window. */
const WINDOW_MS = 100
const SAMPLE_INTERVAL_MS = 10

/** A listener of the server's requests. */
export type Serve = (request: IncomingMessage, response: ServerResponse) => void

/** Held by a request while it is processed. */
type Slot = object

const SLOT = Symbol('slot')

declare module 'node:http' {
  interface ServerResponse {
    [SLOT]?: Slot | undefined
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    /** How many requests are processed (`used`), and how many wait. */
    admissionQueue: Readonly<Pick<AdmissionQueue, 'used' | 'waiting'>>
    /** The number of consecutive windows, up to now, in which the event loop was late. */
    readonly lateWindows: number
    /**
     * The server's request listener: passes a request to `serve`, Fastify's own, once it is admitted. A hook would not
     * do: a refusal through Fastify takes more CPU, and a waiting request more memory.
     */
    admit(request: IncomingMessage, response: ServerResponse, serve: Serve): void
  }
}

/** The slots of the requests that are being processed, and the queue of the requests that wait for one. */
class AdmissionQueue extends Semaphore<Slot> {
  readonly #onEnter: () => void

  constructor(
    { maxActive, maxWaiting, maxWaitMs }: Record<'maxActive' | 'maxWaiting' | 'maxWaitMs', number>,
    onEnter: () => void,
  ) {
    // A fixed set of slots. A Map with thousands of insertions and deletions per second leaves old hash tables behind,
    // which keep completed requests in memory until the next full garbage collection.
    const slots = Array.from({ length: maxActive }, (): Slot => ({}))
    super(slots, { maxWaiting, acquireTimeout: 2 * maxWaitMs, createError: () => overloaded })
    this.#onEnter = onEnter
  }

  /**
   * Lends a slot to a request until its response begins, and calls `onAdmit`, synchronously if a slot is free. Calls
   * neither function if the client does not wait for the response any more.
   */
  enter(response: ServerResponse, onAdmit: () => void, onRefuse: () => void): void {
    this.#onEnter()
    const lifetime = getLifetime(response)
    const occupy = (slot: Slot) => {
      response[SLOT] = slot
      lifetime.untilAnswered(this.leave.bind(this, response))
      if (response[SLOT]) onAdmit()
    }
    const free = this.take()
    if (free) occupy(free)
    else lifetime.onQueue(this.wait(occupy, (error) => error === disconnected || onRefuse()))
  }

  /** Takes back the slot of a request, if it has one. */
  leave(response: ServerResponse): void {
    const slot = response[SLOT]
    if (slot === undefined) return
    response[SLOT] = undefined
    // The next request starts after the current call of this one has returned.
    if (this.waiting > 0) queueMicrotask(() => this.release(slot))
    else this.release(slot)
  }
}

/** Takes back the slots of requests while their body arrives: slow clients hold none. */
function releaseForBodies(app: FastifyInstance, queue: AdmissionQueue, report: (reason: Reason) => void) {
  const releaseForBody: preParsingHookHandler = (request, { raw }, payload, done) => {
    if (hasBody(request) && !request.raw.complete) queue.leave(raw)
    done(null, payload)
  }
  const waitForSlot: preValidationHookHandler = (_request, { raw }, done) => {
    if (raw[SLOT]) return done()
    queue.enter(raw, done, () => {
      report('line')
      done(overloaded)
    })
  }

  // Before the hooks of scopes, since one of them waits for the body of GET and HEAD.
  app.addHook('preParsing', releaseForBody)
  app.addHook('onRoute', (route) => {
    // The unversioned ones hold no slot.
    if ((route.method === 'GET' || route.method === 'HEAD') && !route.url.startsWith('/api/v')) return
    route.preValidation = [route.preValidation ?? [], waitForSlot].flat()
  })
}

/**
 * Returns a state that is updated from `start` until a window that was not late ends while `isIdle`: samples without a
 * request would take 0.7 % of a core. Existing libraries also read the memory usage, which takes longer than a request,
 * and Node's `monitorEventLoopDelay` misses a pause that follows a reset.
 */
function createLoopWatch(maxDelayMs: number, isIdle: () => boolean) {
  let timer: NodeJS.Timeout | undefined
  let longestDelay = 0
  let windowStart = 0
  let lastSample = 0
  const watch = {
    lateWindows: 0,
    start() {
      if (timer) return
      windowStart = lastSample = performance.now()
      timer = setInterval(sample, SAMPLE_INTERVAL_MS).unref()
    },
    stop() {
      clearInterval(timer)
      timer = undefined
    },
  }
  const sample = () => {
    const now = performance.now()
    longestDelay = Math.max(longestDelay, now - lastSample - SAMPLE_INTERVAL_MS)
    lastSample = now
    if (now - windowStart < WINDOW_MS) return
    watch.lateWindows = longestDelay > maxDelayMs ? watch.lateWindows + 1 : 0
    longestDelay = 0
    windowStart = now
    if (watch.lateWindows === 0 && isIdle()) watch.stop()
  }
  return watch
}

async function admission(app: FastifyInstance, options: AdmissionOptions) {
  const { maxLoopDelayMs = 250, maxWaitMs = DEFAULT_MAX_WAIT_MS, maxWaiting = DEFAULT_MAX_WAITING } = options
  const { maxActive = app.poolSize + MAX_PREPARED } = options
  const report = createRefusalReporter(app)
  const loop = createLoopWatch(maxLoopDelayMs, () => queue.used === 0)
  const queue: AdmissionQueue = new AdmissionQueue({ maxActive, maxWaiting, maxWaitMs }, loop.start)
  app.addHook('onClose', async () => loop.stop())
  app.decorate('admissionQueue', queue)
  app.decorate('lateWindows', { getter: () => loop.lateWindows })
  releaseForBodies(app, queue, report)

  const refuseRequest = async (request: IncomingMessage, response: ServerResponse, reason: Reason) => {
    report(reason)
    refuse(app, request, response, await app.countOverloaded(request))
  }
  app.decorate('admit', (request, response, serve) => {
    // Unversioned addresses (health checks, metrics, documents) are cheap to serve and needed by operators.
    if (!app.addressing.getAddress(request).isVersioned) return serve(request, response)
    // A single pause, such as a garbage collection or another process on the machine, is over by the time it is
    // measured. Without active requests, the delay was caused by requests that are already answered.
    if (loop.lateWindows > 1 && queue.used > 0) return void refuseRequest(request, response, 'event-loop')
    const refuseWaiting = () => void refuseRequest(request, response, 'line')
    if (queue.estimateWait() + app.database.estimateWait() > maxWaitMs) return refuseWaiting()
    queue.enter(response, serve.bind(undefined, request, response), refuseWaiting)
  })
  // Beyond MAX_CONNECTIONS, Node closes new connections without a response, which takes the least work.
  app.server.on('drop', () => report('connections'))
}

export default fp(admission, {
  name: 'admission',
  dependencies: ['errors', 'cors', 'database', 'shutdown', 'timeouts'],
})
