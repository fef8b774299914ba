/** Configures logging: JSON lines with a request id, pretty lines on a developer's terminal, credentials redacted. */

import { serializeError } from '@resource-api/database/errors'
import { isObject } from '@resource-api/database/values'
import type { FastifyServerOptions } from 'fastify'
import { type LogFn, type Logger, type LoggerOptions, pino } from 'pino'
import type { PrettyOptions } from 'pino-pretty'
import type { Config } from '../../config/settings.ts'
import { getRequestId } from '../../lib/request-id.ts'
import { createRedact } from './redact.ts'
import { RequestLogController, serializeReply, serializeRequest } from './requests.ts'

/** Adds the serialized message to a call without one. By default pino uses the error's own message, including SQL. */
function addMessage(args: Parameters<LogFn>): Parameters<LogFn> {
  const [first, message] = args
  const fields = first instanceof Error ? { err: first } : first
  if (message !== undefined || !isObject(fields) || !(fields.err instanceof Error)) return args
  return [fields, serializeError(fields.err).message]
}

/** @param ownSecrets the names of the project's own settings that are secret */
export const createPinoOptions = (ownSecrets: readonly string[]) =>
  ({
    serializers: {
      err: serializeError,
      error: serializeError,
      cause: serializeError,
      req: serializeRequest,
      res: serializeReply,
    },
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label) => ({ level: label }) },
    hooks: {
      logMethod(args, method) {
        method.apply(this, addMessage(args))
      },
      streamWrite: createRedact(ownSecrets),
    },
  }) satisfies LoggerOptions

/** One line per request and statement, with the id of the request at the end. */
const prettyOptions: PrettyOptions = {
  sync: true,
  singleLine: true,
  translateTime: 'SYS:HH:MM:ss.l',
  ignore: 'req,res,duration_ms,sql,rows',
  messageFormat: (line, key) => {
    const { req, res, duration_ms, sql, rows, code } = line
    if (typeof sql === 'string')
      return `${sql} -- ${rows === undefined ? `failed with ${code}` : `${rows} rows`} in ${duration_ms} ms`
    if (!isObject(req)) return String(line[key])
    const outcome = isObject(res) ? `${res.status} in ${duration_ms} ms` : line[key]
    return `${req.method} ${req.path} ${outcome}`
  },
}

export interface LoggingOptions extends Pick<Config, 'LOG_LEVEL' | 'NODE_ENV' | 'WORKERS'> {
  /** The names of the project's own settings that are secret. */
  ownSecrets: readonly string[]
  /** The destination; standard output by default. */
  logs?: { write(line: string): void }
}

type Logging = Pick<FastifyServerOptions, 'logger' | 'logController' | 'genReqId' | 'requestIdHeader'>

async function createLoggerOptions({ LOG_LEVEL, NODE_ENV, WORKERS, ownSecrets, logs }: LoggingOptions) {
  // Colored lines for people; otherwise one JSON object per line.
  const isPretty = NODE_ENV === 'development' && process.stdout.isTTY
  // pino-pretty is loaded on demand, because production does not use it.
  const destination = logs ?? (isPretty ? (await import('pino-pretty')).build(prettyOptions) : undefined)
  return {
    ...createPinoOptions(ownSecrets),
    // Several processes write to one output.
    ...(WORKERS > 1 && { base: { pid: process.pid } }),
    level: LOG_LEVEL,
    ...(destination && { stream: destination }),
  }
}

/** Returns a logger of a process without an app. */
export async function createLogger(options: LoggingOptions): Promise<Logger> {
  const { stream, ...pinoOptions } = await createLoggerOptions(options)
  return pino(pinoOptions, stream)
}

/** Returns the options of `fastify()` that concern logs and request ids. */
export async function createLoggingOptions(options: LoggingOptions): Promise<Logging> {
  return {
    logger: await createLoggerOptions(options),
    logController: new RequestLogController(),
    genReqId: getRequestId,
    requestIdHeader: false,
  }
}
