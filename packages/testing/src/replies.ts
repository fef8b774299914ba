/** Reads replies: ids, violations and pages. */
import type { Client, Json, Reply } from './client.ts'

export const getIds = ({ body }: Reply): string[] => body.data.map((each: Json) => each.id)

/** Returns the violations of an error as `limit OUT_OF_RANGE`, sorted, from either version's envelope. */
export const getViolations = ({ body }: Reply): string[] =>
  (body.error.details ?? body.error.errors ?? [])
    .map(({ field, code }: { field: string; code: string }) => `${field} ${code}`)
    .sort()

const withParameter = (path: string, name: string, value: string | number) =>
  `${path}${path.includes('?') ? '&' : '?'}${name}=${encodeURIComponent(value)}`

/** Yields every page of a list by following its cursors; `between` runs after each page. */
export async function* readPages(
  client: Client,
  path: string,
  between: () => Promise<unknown> = async () => {},
): AsyncGenerator<Reply> {
  let cursor = ''
  while (true) {
    const reply = await client.get(withParameter(path, 'cursor', cursor))
    if (reply.status !== 200) throw new Error(`${reply.status} ${path}: ${reply.text}`)
    yield reply
    const { pagination } = reply.body
    if (pagination.has_more !== (pagination.cursor !== null)) throw new Error('has_more and cursor disagree')
    if (pagination.cursor === null) return
    cursor = pagination.cursor
    await between()
  }
}

/** Returns every id of a list in order, by following its cursors. */
export async function collectIds(
  client: Client,
  path: string,
  between?: () => Promise<unknown>,
): Promise<string[]> {
  const ids: string[] = []
  for await (const page of readPages(client, path, between)) ids.push(...getIds(page))
  return ids
}
