/** Formats log lines for a terminal: one line per request, with its id at the end. */
import { build, type PrettyOptions } from 'pino-pretty'

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

const options: PrettyOptions = {
  sync: true,
  singleLine: true,
  translateTime: 'SYS:HH:MM:ss.l',
  ignore: 'req,res,duration_ms',
  messageFormat: (line, key) => {
    const { req, res, duration_ms } = line
    if (!isRecord(req)) return String(line[key])
    const outcome = isRecord(res) ? `${res.status} in ${duration_ms} ms` : line[key]
    return `${req.method} ${req.path} ${outcome}`
  },
}

export const createPrettyStream = () => build(options)
