/** Admission control: responds 503 immediately to requests that an overloaded server could not answer in time. */
import { channel } from 'node:diagnostics_channel'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { type MaybePromise, mapMaybe } from '../../lib/maybe-promise.ts'
import { apiError } from '../errors/index.ts'
import { hasBody } from '../http/content-type.ts'
import type { OverloadedCount } from '../rate-limit/rules.ts'
import { type AdmissionQueue, type AdmissionQueueOptions, createAdmissionQueue } from './queue.ts'
import { refuse } from './refusal.ts'

export interface AdmissionOptions extends AdmissionQueueOptions {
  /** The delay of the event loop beyond which requests are refused. */
  maxLoopDelayMs?: number | undefined
  /**
   * The longest expected wait with which a request is still admitted. A request whose wait was not predicted gives up
   * after twice this time, the default of the queue's semaphore.
   */
  maxWaitMs?: number
  /** Counts a refused request in its rate limit. */
  countOverloaded: (request: IncomingMessage) => MaybePromise<OverloadedCount>
}

/** Why a request or a connection was refused: the label of the metric, so its values are part of the contract. */
type Reason = 'event-loop' | 'line' | 'connections'

/** The event loop's delay is the longest one within a window. */
const WINDOW_MS = 100
const SAMPLE_INTERVAL_MS = 10
/** Time between two log lines about overload. */
const LOG_INTERVAL_MS = 10_000

const refused = channel('resource-api:overload:refused')

/** A listener of the server's requests. */
export type Serve = (request: IncomingMessage, response: ServerResponse) => void

declare module 'fastify' {
  interface FastifyInstance {
    admissionQueue: Readonly<Pick<AdmissionQueue, 'active' | 'waiting' | 'expectedWaitMs'>>
    /**
     * The server's request listener: passes a request to `serve`, Fastify's own, once it is admitted. A hook would not
     * do: a refusal through Fastify takes three times as long, and a waiting request more memory (queue.ts).
     */
    admit(request: IncomingMessage, response: ServerResponse, serve: Serve): void
    /** The number of consecutive windows, up to now, in which the event loop was late. */
    readonly lateWindows: number
  }
  interface FastifyRequest {
    /** Whether the request gave up its slot while its body arrived. */
    hasReleasedSlot: boolean
  }
}

/** Returns a function that publishes each refusal on the diagnostics channel, and logs a summary at intervals. */
function createRefusalReporter({ log }: FastifyInstance) {
  let count = 0
  let loggedAt = Number.NEGATIVE_INFINITY
  return (reason: Reason) => {
    count += 1
    if (refused.hasSubscribers) refused.publish({ reason })
    const now = performance.now()
    if (now - loggedAt < LOG_INTERVAL_MS) return
    log.warn({ reason, refused: count }, 'overloaded: requests are refused')
    loggedAt = now
    count = 0
  }
}

/**
 * Releases the slots of requests while they wait for their client: slow clients hold none while their body arrives or
 * while they read the response.
 */
function releaseSlots(app: FastifyInstance, queue: AdmissionQueue, report: (reason: Reason) => void) {
  app.decorateRequest('hasReleasedSlot', false)
  app.addHook('preParsing', (request, _reply, payload, done) => {
    const { raw } = request
    if (hasBody(request) && !raw.complete && queue.isActive(raw)) {
      request.hasReleasedSlot = true
      queue.release(raw)
    }
    done(null, payload)
  })
  app.addHook('preValidation', (request, reply, done) => {
    if (!request.hasReleasedSlot) return done()
    const { raw } = request
    const resume = () => {
      // If the timeout has responded in the meantime, `onSend` has run already and would not release this slot.
      if (reply.sent) queue.release(raw)
      done()
    }
    queue.acquire(raw, resume, () => {
      report('line')
      done(apiError('SERVICE_UNAVAILABLE', { retryAfter: 2, message: 'The service is overloaded' }))
    })
  })
  app.addHook('onSend', ({ raw }, _reply, payload, done) => {
    queue.release(raw)
    done(null, payload)
  })
}

/**
 * Returns a function that counts the consecutive windows in which the event loop was late. Existing libraries also read
 * the memory usage, which takes longer than a request, and Node's `monitorEventLoopDelay` misses a pause that follows a
 * reset.
 */
function watchEventLoop(app: FastifyInstance, maxDelayMs: number): () => number {
  let lateWindows = 0
  let longestDelay = 0
  let windowStart = performance.now()
  let lastSample = windowStart
  const timer = setInterval(() => {
    const now = performance.now()
    longestDelay = Math.max(longestDelay, now - lastSample - SAMPLE_INTERVAL_MS)
    lastSample = now
    if (now - windowStart < WINDOW_MS) return
    lateWindows = longestDelay > maxDelayMs ? lateWindows + 1 : 0
    longestDelay = 0
    windowStart = now
  }, SAMPLE_INTERVAL_MS).unref()
  app.addHook('onClose', async () => clearInterval(timer))
  return () => lateWindows
}

async function admission(app: FastifyInstance, options: AdmissionOptions) {
  const { maxLoopDelayMs = 250, maxWaitMs = 1_000, countOverloaded, ...queueOptions } = options
  const report = createRefusalReporter(app)
  const queue = createAdmissionQueue(queueOptions)
  app.decorate('admissionQueue', queue)
  app.addHook('onClose', async () => queue.close())
  releaseSlots(app, queue, report)
  const getLateWindows = watchEventLoop(app, maxLoopDelayMs)
  app.decorate('lateWindows', { getter: getLateWindows })

  const findReason = (): Reason | undefined => {
    // A single pause, such as a garbage collection or another process on the machine, is over by the time it is
    // measured. Without active requests, the delay was caused by requests that are already answered.
    if (getLateWindows() > 1 && queue.active > 0) return 'event-loop'
    return queue.isFull || queue.expectedWaitMs + app.database.estimateWait() > maxWaitMs ? 'line' : undefined
  }
  app.decorate('admit', (request, response, serve) => {
    const address = app.addressing.getAddress(request)
    // Unversioned addresses (health checks, metrics, documents) are cheap to serve and needed by operators.
    if (!address.isVersioned) return serve(request, response)
    const refuseRequest = (reason: Reason) => {
      report(reason)
      const corsHeaders = app.getCorsHeaders(request.headers.origin)
      const reply = (count: OverloadedCount) =>
        refuse({ request, response, address, corsHeaders, isLast: app.draining, count })
      void mapMaybe(countOverloaded(request), reply)
    }
    const overload = findReason()
    if (overload !== undefined) return refuseRequest(overload)
    const start = () => {
      response.on('close', () => queue.release(request))
      // The client may have closed the connection while the request waited.
      if (request.socket.destroyed) queue.release(request)
      else serve(request, response)
    }
    queue.acquire(request, start, () => refuseRequest('line'))
  })
  // Beyond MAX_CONNECTIONS, Node closes new connections without a response, which takes the least work.
  app.server.on('drop', () => report('connections'))
}

export default fp(admission, {
  name: 'admission',
  dependencies: ['errors', 'cors', 'database', 'shutdown'],
})
