/** Overload: what could not be answered in time is refused at once, before anything is done for it. */
import { channel } from 'node:diagnostics_channel'
import type { IncomingMessage, ServerResponse } from 'node:http'
import underPressure from '@fastify/under-pressure'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { hasBody } from './content.ts'
import { refuse } from './overload/refusal.ts'

export interface OverloadOptions {
  /** Requests that may be worked on at once. */
  most: number
  /** Milliseconds by which the event loop may be late. */
  late?: number | undefined
  /** Milliseconds that a request may expect to wait for a connection to the database. */
  wait?: number
}

/**
 * Milliseconds over which the mean of the loop's lateness is taken. Short enough that turns which are late one after
 * the other are noticed at the second, and their end at once; long enough that a single pause is none of it.
 */
const WINDOW = 100
/** Milliseconds between two lines about it in the log. */
const QUIET = 10_000

const refused = channel('resource-api:overload:refused')

declare module 'fastify' {
  interface FastifyInstance {
    /** Requests that are worked on. */
    readonly working: number
  }
  interface FastifyRequest {
    isWorkedOn: boolean
  }
}

/** Counts those that are worked on. Slow clients are no work: nothing counts while a body arrives or an answer leaves. */
function countWork(app: FastifyInstance) {
  let working = 0
  const enter = (request: FastifyRequest) => {
    if (!request.isWorkedOn) working += 1
    request.isWorkedOn = true
  }
  const leave = (request: FastifyRequest) => {
    if (request.isWorkedOn) working -= 1
    request.isWorkedOn = false
  }
  app.decorate('working', { getter: () => working })
  app.decorateRequest('isWorkedOn', false)
  app.addHook('onRequest', (request, reply, done) => {
    enter(request)
    reply.raw.once('close', () => leave(request))
    done()
  })
  app.addHook('preParsing', (request, _reply, payload, done) => {
    if (hasBody(request)) leave(request)
    done(null, payload)
  })
  app.addHook('preValidation', (request, _reply, done) => {
    enter(request)
    done()
  })
  app.addHook('onSend', (request, _reply, payload, done) => {
    leave(request)
    done(null, payload)
  })
}

/** Says in the log that there is overload, and not for each request that suffers from it. */
function createTeller({ log }: FastifyInstance) {
  let count = 0
  let told = Number.NEGATIVE_INFINITY
  return (reason: string) => {
    count += 1
    if (refused.hasSubscribers) refused.publish({ reason })
    const now = performance.now()
    if (now - told < QUIET) return
    log.warn({ reason, refused: count }, 'overloaded: requests are refused')
    told = now
    count = 0
  }
}

async function overload(app: FastifyInstance, { most, late = 250, wait = 1_000 }: OverloadOptions) {
  const tell = createTeller(app)
  countWork(app)
  await app.register(underPressure, {
    maxEventLoopDelay: late,
    sampleInterval: WINDOW,
    // It measures; what is done about it is done below, where it costs less.
    pressureHandler: () => undefined,
  })

  const reason = (): string | undefined => {
    // With nobody at work the loop was late for who is answered by now: one slow query after the other, say.
    if (app.isUnderPressure() && app.working > 0) return 'event-loop'
    if (app.working >= most) return 'requests'
    return app.database.delay() > wait ? 'database' : undefined
  }
  const serve = app.routing
  const guard = (request: IncomingMessage, response: ServerResponse) => {
    const why = reason()
    if (why === undefined) return serve(request, response)
    const address = app.addressing.of(request)
    // What no version serves is for operators, and cheap: livez, readyz, metrics, documents.
    if (!address.isVersioned) return serve(request, response)
    tell(why)
    refuse(request, response, address, app.draining)
  }
  // Beyond MAX_CONNECTIONS Node hangs up by itself, without a word: in a flood, that is all one can afford.
  app.server.on('drop', () => tell('connections'))
  // In the place of Fastify, which is asked only where there is room.
  app.server.off('request', serve)
  app.server.on('request', guard)
}

export default fp(overload, {
  name: 'overload',
  // Behind one that hung up, a pipelined request may end without a word: then it is the deadline that ends it.
  dependencies: ['errors', 'database', 'deadline', 'shutdown'],
})
