/** Limits the number of label values: each value is a time series for as long as the process runs. */

const LABEL_VALUE = /^[\w.-]{1,40}$/

/** Returns a function that reads a field of a message: the first `maxValues` values, and `other` for all later ones. */
export function createLabelReader(field: string, maxValues = 20): (message: unknown) => string {
  const known = new Set<string>()
  return (message) => {
    const value = message instanceof Object ? String(Reflect.get(message, field)) : ''
    if (known.has(value)) return value
    if (!LABEL_VALUE.test(value) || known.size >= maxValues) return 'other'
    known.add(value)
    return value
  }
}

/** Returns a number in a message; 0 if the field is not a positive number. */
export function readNumber(message: unknown, field: string): number {
  const value: unknown = message instanceof Object ? Reflect.get(message, field) : undefined
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0
}

/** Returns the numbers in a field of a message. */
export function readNumbers(message: unknown, field: string): number[] {
  const values: unknown = message instanceof Object ? Reflect.get(message, field) : undefined
  return Array.isArray(values) ? values.filter((value) => typeof value === 'number') : []
}

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

/** Node's HTTP parser accepts about 30 methods. */
export const toMethodLabel = (method: string) => (METHODS.has(method) ? method : '_OTHER')

const VERSIONED_ROUTE = /^\/api\/v(\d+)(\/.+)$/

/** Returns the version and the rest of a route's template, never of the path that the client sent. */
export function toRouteLabels(url: string | undefined): { route: string; version: string } {
  if (url === undefined || url === '*') return { route: 'none', version: 'none' }
  const [, version = 'none', route = url] = VERSIONED_ROUTE.exec(url) ?? []
  return { route, version }
}
