/** Overload: what could not be answered in time is refused at once, before anything is done for it. */
import { channel } from 'node:diagnostics_channel'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { type MaybePromise, mapMaybe } from '../../lib/maybe-promise.ts'
import { apiError } from '../errors/index.ts'
import { hasBody } from '../http/content-type.ts'
import type { RefusedCount } from '../rate-limit/rules.ts'
import { createRoom, type Room, type RoomOptions } from './queue.ts'
import { refuse } from './refusal.ts'

export interface OverloadOptions extends RoomOptions {
  /** Milliseconds by which the event loop may be late. */
  late?: number | undefined
  /** Milliseconds that a request may expect to wait; one that does not know better waits twice as long. */
  wait?: number
  /** Counts a request that is refused. */
  countRefused: (request: IncomingMessage) => MaybePromise<RefusedCount>
}

/** Why a request, or a connection, was refused. */
type Reason = 'event-loop' | 'line' | 'connections'

/** Milliseconds over which the loop's longest turn is sought, and between two looks at the loop. */
const WINDOW = 100
const RESOLUTION = 10
/** Milliseconds between two lines about it in the log. */
const QUIET = 10_000

const refused = channel('resource-api:overload:refused')

declare module 'fastify' {
  interface FastifyInstance {
    /** Who is worked on, and who waits. */
    room: Readonly<Pick<Room, 'inside' | 'waiting' | 'delay'>>
    /** In how many windows, one after the other, the event loop was late. */
    readonly lateness: number
  }
}

/** Says that there is overload: each time to who listens, and now and then in the log. */
function createTeller({ log }: FastifyInstance) {
  let count = 0
  let told = Number.NEGATIVE_INFINITY
  return (reason: Reason) => {
    count += 1
    if (refused.hasSubscribers) refused.publish({ reason })
    const now = performance.now()
    if (now - told < QUIET) return
    log.warn({ reason, refused: count }, 'overloaded: requests are refused')
    told = now
    count = 0
  }
}

/** Ends turns. Slow clients hold none: neither while their body arrives nor until they have taken their answer. */
function endTurns(app: FastifyInstance, room: Room, tell: (reason: Reason) => void) {
  const arriving = new WeakSet<IncomingMessage>()
  app.addHook('preParsing', (request, _reply, payload, done) => {
    const { raw } = request
    if (hasBody(request) && !raw.complete && room.holds(raw)) {
      arriving.add(raw)
      room.end(raw)
    }
    done(null, payload)
  })
  app.addHook('preValidation', ({ raw }, reply, done) => {
    if (!arriving.delete(raw)) return done()
    const begin = () => {
      // Who was told meanwhile that it took too long comes by no other end.
      if (reply.sent) room.end(raw)
      done()
    }
    room.take(raw, begin, () => {
      tell('line')
      done(apiError('SERVICE_UNAVAILABLE', { retryAfter: 2, message: 'The service is overloaded' }))
    })
  })
  app.addHook('onSend', ({ raw }, _reply, payload, done) => {
    room.end(raw)
    done(null, payload)
  })
}

/**
 * Counts the windows in which the loop is late. Not by a library, which asks for the memory as well: that costs more
 * than a request each time. Nor by Node's `monitorEventLoopDelay`, which sees no pause that follows a reset.
 */
function countLateness(app: FastifyInstance, late: number): () => number {
  let windows = 0
  let longest = 0
  let [began, before] = [performance.now(), performance.now()]
  const timer = setInterval(() => {
    const now = performance.now()
    longest = Math.max(longest, now - before - RESOLUTION)
    before = now
    if (now - began < WINDOW) return
    windows = longest > late ? windows + 1 : 0
    longest = 0
    began = now
  }, RESOLUTION).unref()
  app.addHook('onClose', async () => clearInterval(timer))
  return () => windows
}

async function overload(app: FastifyInstance, options: OverloadOptions) {
  const { late = 250, wait = 1_000, countRefused, ...bounds } = options
  const tell = createTeller(app)
  const room = createRoom(bounds)
  app.decorate('room', room)
  app.addHook('onClose', async () => room.close())
  endTurns(app, room, tell)
  const lateness = countLateness(app, late)
  app.decorate('lateness', { getter: lateness })

  const why = (): Reason | undefined => {
    // A single pause, such as a collection of garbage or a neighbour on the machine, is over when it is noticed. With
    // nobody at work the loop was late for who is answered by now: one slow query after the other, say.
    if (lateness() > 1 && room.inside > 0) return 'event-loop'
    return room.isFull || room.delay + app.database.delay() > wait ? 'line' : undefined
  }
  const serve = app.routing
  const guard = (request: IncomingMessage, response: ServerResponse) => {
    const address = app.addressing.of(request)
    // What no version serves is for operators, and cheap: livez, readyz, metrics, documents.
    if (!address.isVersioned) return serve(request, response)
    const turnAway = (cause: Reason) => {
      tell(cause)
      const forPages = app.crossOrigin(request.headers.origin)
      const answer = (count: RefusedCount) =>
        refuse({ request, response, address, forPages, isLast: app.draining, count })
      void mapMaybe(countRefused(request), answer)
    }
    const reason = why()
    if (reason !== undefined) return turnAway(reason)
    const begin = () => {
      response.on('close', () => room.end(request))
      // Who has left while waiting gets nothing done.
      if (request.socket.destroyed) room.end(request)
      else serve(request, response)
    }
    room.take(request, begin, () => turnAway('line'))
  }
  // Beyond MAX_CONNECTIONS Node hangs up by itself, without a word: in a flood, that is all one can afford.
  app.server.on('drop', () => tell('connections'))
  // In the place of Fastify, which is asked only where there is room.
  app.server.off('request', serve)
  app.server.on('request', guard)
}

export default fp(overload, {
  name: 'overload',
  dependencies: ['errors', 'cors', 'database', 'shutdown'],
})
