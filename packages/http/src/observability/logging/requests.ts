/** Logs one line per request after its response: address, method, path, route, status and duration. */
import { type FastifyReply, type FastifyRequest, LogController } from 'fastify'

const MAX_PARAMETER_NAMES = 20
const PARAMETER = /^[a-z][a-z0-9_.[\]-]{0,39}$/i
/** Routes that orchestrators and monitoring request every few seconds. */
export const PROBES: ReadonlySet<string | undefined> = new Set(['/livez', '/readyz', '/metrics'])

/** Returns the parameter names of a query string. Values may be secrets, and so may names of an unusual form. */
function getParameterNames(query: string): string[] {
  const names = query.split('&', MAX_PARAMETER_NAMES).map((pair) => pair.split('=', 1)[0] ?? '')
  return [...new Set(names.map((name) => (PARAMETER.test(name) ? name : '?')))]
}

/** Returns the parts of a URL that may be logged. */
export function getLoggableUrl(url: string): { path: string; parameters?: string[] } {
  const queryStart = url.indexOf('?')
  const path = (queryStart < 0 ? url : url.slice(0, queryStart)).slice(0, 256)
  return queryStart < 0 ? { path } : { path, parameters: getParameterNames(url.slice(queryStart + 1)) }
}

/** The serializer of `req`. `originalUrl` is the URL that the client sent, before the version is rewritten. */
export function serializeRequest(request: FastifyRequest) {
  return {
    method: request.method,
    ...getLoggableUrl(request.originalUrl),
    route: request.routeOptions.url,
    remote_address: request.ip,
  }
}

/** The serializer of `res`. */
export function serializeReply(reply: Pick<FastifyReply, 'statusCode'>) {
  return { status: reply.statusCode }
}

/** Replaces Fastify's log lines, which contain full URLs and error messages. */
export class RequestLogController extends LogController {
  constructor() {
    super({ requestIdLogLabel: 'request_id' })
  }

  override incomingRequest(request: FastifyRequest): void {
    request.log.trace({ req: request }, 'request received')
  }

  override requestCompleted(
    error: Error | null | undefined,
    request: FastifyRequest,
    reply: FastifyReply,
  ): void {
    const line = { req: request, res: reply, duration_ms: Math.round(reply.elapsedTime * 1000) / 1000 }
    if (error) request.log.warn({ ...line, err: error }, 'response could not be sent')
    else request.log[PROBES.has(request.routeOptions.url) ? 'debug' : 'info'](line, 'request answered')
  }

  override defaultErrorLog(error: Error, request: FastifyRequest, reply: FastifyReply): void {
    request.log[reply.statusCode >= 500 ? 'error' : 'debug']({ err: error }, 'request failed')
  }

  override routeNotFound(request: FastifyRequest): void {
    request.log.debug({ req: request }, 'route not found')
  }

  override writeHeadError(error: Error, request: FastifyRequest, reply: FastifyReply): void {
    request.log.warn({ req: request, res: reply, err: error }, 'response headers could not be written')
  }
}
