/** Narrows the pages of the generated clients to those of the conversation. */
import type { Product, ProductPage, Reply } from './conversation.ts'

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
