/** One line for each request, when its reply is out: who, what, which route, how it ended and how long it took. */
import { type FastifyReply, type FastifyRequest, LogController } from 'fastify'

const MOST_NAMES = 20
const PARAMETER = /^[a-z][a-z0-9_.[\]-]{0,39}$/i
/** What orchestrators and monitoring ask every few seconds. */
const PROBES = new Set(['/livez', '/readyz', '/metrics'])

/** The names in a query string; never the values, which may be secrets, nor a name that looks like one. */
function parameterNames(query: string): string[] {
  const names = query.split('&', MOST_NAMES).map((pair) => pair.split('=', 1)[0] ?? '')
  return [...new Set(names.map((name) => (PARAMETER.test(name) ? name : '?')))]
}

/** What a log may hold of a request's address. */
export function safeUrl(url: string): { path: string; parameters?: string[] } {
  const mark = url.indexOf('?')
  const path = (mark < 0 ? url : url.slice(0, mark)).slice(0, 256)
  return mark < 0 ? { path } : { path, parameters: parameterNames(url.slice(mark + 1)) }
}

/** The serializer of `req`. `originalUrl` is the address as the client wrote it, before versions are sorted out. */
export function serializeRequest(request: FastifyRequest) {
  return {
    method: request.method,
    ...safeUrl(request.originalUrl),
    route: request.routeOptions.url,
    remote_address: request.ip,
  }
}

/** The serializer of `res`. */
export function serializeReply(reply: Pick<FastifyReply, 'statusCode'>) {
  return { status: reply.statusCode }
}

/** Fastify's log lines in the house's words, none of which quotes an address or an error's text. */
export class HouseLogController extends LogController {
  constructor() {
    super({ requestIdLogLabel: 'request_id' })
  }

  override incomingRequest(request: FastifyRequest): void {
    request.log.trace({ req: request }, 'request arrived')
  }

  override requestCompleted(
    error: Error | null | undefined,
    request: FastifyRequest,
    reply: FastifyReply,
  ): void {
    const line = { req: request, res: reply, duration_ms: Math.round(reply.elapsedTime * 1000) / 1000 }
    if (error) request.log.warn({ ...line, err: error }, 'the reply could not be sent')
    else if (PROBES.has(request.routeOptions.url ?? '')) request.log.debug(line, 'request answered')
    else request.log.info(line, 'request answered')
  }

  override defaultErrorLog(error: Error, request: FastifyRequest, reply: FastifyReply): void {
    request.log[reply.statusCode >= 500 ? 'error' : 'debug']({ err: error }, 'request failed')
  }

  override routeNotFound(request: FastifyRequest): void {
    request.log.debug({ req: request }, 'no such route')
  }

  override writeHeadError(error: Error, request: FastifyRequest, reply: FastifyReply): void {
    request.log.warn({ req: request, res: reply, err: error }, 'the head of the reply could not be written')
  }
}
