/** Formats log lines for a terminal: one line per request, with its id at the end. */
import { build, type PrettyOptions } from 'pino-pretty'
import { isObject } from '../../../lib/is-object.ts'

const options: PrettyOptions = {
  sync: true,
  singleLine: true,
  translateTime: 'SYS:HH:MM:ss.l',
  ignore: 'req,res,duration_ms',
  messageFormat: (line, key) => {
    const { req, res, duration_ms } = line
    if (!isObject(req)) return String(line[key])
    const outcome = isObject(res) ? `${res.status} in ${duration_ms} ms` : line[key]
    return `${req.method} ${req.path} ${outcome}`
  },
}

export const createPrettyStream = () => build(options)
