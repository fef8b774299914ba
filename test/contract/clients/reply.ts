/** Converts the replies of the generated clients to those of the conversation. */
import type { Failure, Product, ProductPage, Reply } from './conversation.ts'

interface ErrorBody {
  error: Failure
}

/** Returns a reply of a client that has one type for the bodies of all statuses. */
export function toReply<Body extends { data: unknown }>(
  status: number,
  headers: Headers,
  body: Body | ErrorBody | undefined,
): Reply<Body> {
  if (body === undefined || isEmpty(body)) return { status, headers }
  return isFailure(body) ? { status, headers, error: body.error } : { status, headers, body }
}

const isEmpty = (body: object) => Object.keys(body).length === 0

const isFailure = (body: object): body is ErrorBody => 'error' in body

/** Narrows a page by its pagination. */
export function toCursorPage(page: {
  data: Product[]
  pagination: ProductPage['pagination'] | { page: number }
}): ProductPage | undefined {
  const { data, pagination } = page
  return 'has_more' in pagination ? { data, pagination } : undefined
}

/** Narrows the reply of a list. */
export function toPageReply({
  body,
  ...reply
}: Reply<Parameters<typeof toCursorPage>[0]>): Reply<ProductPage> {
  return { ...reply, body: body && toCursorPage(body) }
}
