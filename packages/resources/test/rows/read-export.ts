/** Reads exports in tests. */
import type { Client, Json, Reply } from '../../../testing/helpers/app.ts'

export const NDJSON = 'application/x-ndjson'
export const CSV = 'text/csv'

/** Returns the values of the lines of NDJSON. Each line, also the last one, ends with a line feed. */
export const parseLines = (text: string): Json[] => {
  if (text !== '' && !text.endsWith('\n')) throw new Error('The last line has no end')
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line))
}

/** Returns the records of CSV as RFC 4180 describes it: each ends with CRLF, a quoted field may contain line breaks. */
export function parseRecords(text: string): string[][] {
  const records: string[][] = []
  const record: string[] = []
  const field = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/gy
  for (let at = 0; at < text.length; at = field.lastIndex) {
    field.lastIndex = at
    const [, quoted, plain = '', end] = field.exec(text) ?? []
    if (end === undefined) throw new Error(`No field at ${at}: ${text.slice(at, at + 80)}`)
    record.push(quoted?.replaceAll('""', '"') ?? plain)
    if (end !== ',') records.push(record.splice(0))
  }
  return records
}

/** Returns the reply to an export, whose status a test checks. */
export const getExport = (client: Client, path: string, accept = NDJSON): Promise<Reply> =>
  client.get(path, { accept })

export const readRows = async (client: Client, path: string): Promise<Json[]> =>
  parseLines((await getExport(client, path)).text)

/** Returns the resources of all pages of a list, which an export has too. */
export async function walkList(client: Client, path: string): Promise<Json[]> {
  const rows: Json[] = []
  let cursor: string | null = ''
  const mark = path.includes('?') ? '&' : '?'
  while (cursor !== null) {
    const { body }: Reply = await client.get(`${path}${mark}limit=100&cursor=${encodeURIComponent(cursor)}`)
    rows.push(...body.data)
    cursor = body.pagination.has_more ? body.pagination.cursor : null
  }
  return rows
}
