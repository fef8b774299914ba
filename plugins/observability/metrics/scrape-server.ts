/** Creates the HTTP server of the separate `/metrics` port, without authentication, with the API's error envelope. */
import Fastify, { type FastifyInstance } from 'fastify'
import { getRequestId } from '../../../lib/request-id.ts'
import errors from '../../errors/index.ts'
import methodNotAllowed from '../../http/method-not-allowed.ts'
import { createParserErrors } from '../../http/parser-errors.ts'
import requestValidation from '../../http/request-validation.ts'
import responseHeaders from '../../http/response-headers.ts'
import { frameworkErrors } from '../../http/responses-without-hooks.ts'
import { RequestLogController } from '../logging/requests.ts'

/** Short timeouts, because a scrape is one short request. */
const SERVER_OPTIONS = {
  requestTimeout: 5_000,
  keepAliveTimeout: 5_000,
  forceCloseConnections: true,
} as const

export async function createScrapeServer(
  { addressing, log }: FastifyInstance,
  addRoutes: (scope: FastifyInstance) => void,
): Promise<FastifyInstance> {
  const parserErrors = createParserErrors(addressing)
  const server = Fastify({
    ...SERVER_OPTIONS,
    http: { headersTimeout: 5_000, requireHostHeader: false },
    loggerInstance: log,
    logController: new RequestLogController(),
    genReqId: getRequestId,
    requestIdHeader: false,
    clientErrorHandler: parserErrors.clientErrorHandler,
    frameworkErrors,
  })
  server.decorate('addressing', addressing)
  await server.register(errors, {
    getErrorEnvelope: (request) => addressing.getAddress(request).representation.error,
  })
  await server.register(responseHeaders)
  await server.register(parserErrors.plugin)
  await server.register(requestValidation)
  await server.register(methodNotAllowed)
  addRoutes(server)
  server.answerOtherMethods(server)
  return server
}
