/** What is logged and how: JSON lines with a request id, pretty on a developer's terminal, never a credential. */
import type { FastifyServerOptions } from 'fastify'
import type { LevelWithSilent, LogFn, LoggerOptions } from 'pino'
import { getRequestId } from '../../../lib/request-id.ts'
import { serializeError } from './errors.ts'
import { redact } from './redact.ts'
import { HouseLogController, serializeReply, serializeRequest } from './requests.ts'

/** The error that a line is about, be it given alone or as `err`. */
function errorOf(first: unknown): Error | undefined {
  if (first instanceof Error) return first
  if (typeof first !== 'object' || first === null || !('err' in first)) return undefined
  return first.err instanceof Error ? first.err : undefined
}

/** pino lends an error's own text, SQL included, to a line that has no words; here the serializer's stands in. */
function withWords(args: Parameters<LogFn>): Parameters<LogFn> {
  const [first, words] = args
  const error = errorOf(first)
  if (error === undefined || words !== undefined) return args
  return [first instanceof Error ? { err: first } : first, serializeError(error).message]
}

const pinoOptions = {
  base: null,
  timestamp: () => `,"time":"${new Date().toISOString()}"`,
  formatters: { level: (label) => ({ level: label }) },
  hooks: {
    logMethod(args, method) {
      method.apply(this, withWords(args))
    },
    streamWrite: redact,
  },
} satisfies LoggerOptions

export interface LoggingOptions {
  level: LevelWithSilent
  /** Coloured lines for a person; false: one JSON object a line. */
  pretty: boolean
  /** Where the lines go; standard output when absent. */
  stream?: { write(line: string): void }
}

type Logging = Pick<FastifyServerOptions, 'logger' | 'logController' | 'genReqId' | 'requestIdHeader'>

/** The options of `fastify()` that concern logs and request ids. */
export async function logging({ level, pretty, stream }: LoggingOptions): Promise<Logging> {
  // Production never loads the painter.
  const out = stream ?? (pretty ? (await import('./pretty.ts')).prettyStream() : undefined)
  return {
    logger: {
      ...pinoOptions,
      level,
      serializers: {
        err: serializeError,
        error: serializeError,
        cause: serializeError,
        req: serializeRequest,
        res: serializeReply,
      },
      ...(out && { stream: out }),
    },
    logController: new HouseLogController(),
    genReqId: getRequestId,
    requestIdHeader: false,
  }
}
