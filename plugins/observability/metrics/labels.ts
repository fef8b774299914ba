/** Labels that stay few, whatever they are made from: each value is a time series for as long as the process runs. */

const WORD = /^[\w.-]{1,40}$/

/** A reader of one member of the messages of a channel: its first `most` values, and `other` for all that come later. */
export function createLabel(member: string, most = 20): (message: unknown) => string {
  const known = new Set<string>()
  return (message) => {
    const value = message instanceof Object ? String(Reflect.get(message, member)) : ''
    if (known.has(value)) return value
    if (!WORD.test(value) || known.size >= most) return 'other'
    known.add(value)
    return value
  }
}

/** A number in a message; 0 where there is none. */
export function numberIn(message: unknown, member: string): number {
  const value: unknown = message instanceof Object ? Reflect.get(message, member) : undefined
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0
}

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

/** Node's parser lets some thirty methods through. */
export const methodLabel = (method: string) => (METHODS.has(method) ? method : '_OTHER')

const VERSIONED = /^\/api\/v(\d+)(\/.+)$/

/** A route's template without its version, and its version: never the path that the client sent. */
export function routeLabels(url: string | undefined): { route: string; version: string } {
  if (url === undefined || url === '*') return { route: 'none', version: 'none' }
  const [, version = 'none', route = url] = VERSIONED.exec(url) ?? []
  return { route, version }
}
