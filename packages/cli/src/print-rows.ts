/** Prints rows page by page, so that memory does not grow with their number: as a table, or as a JSON array. */

/** Rows that are in memory at a time. */
const PAGE_SIZE = 1_000
const FIRST_ID = '00000000-0000-0000-0000-000000000000'

interface Row {
  /** Rows without one are a single page. */
  id?: string
  [field: string]: unknown
}

/** Selects at most `limit` rows after an id, in the order of the id. */
type SelectPage = (afterId: string, limit: number) => PromiseLike<Row[]>

/** Yields pages until the first one that is not full. Ids begin with the time of creation: the oldest row is first. */
async function* readPages(selectPage: SelectPage): AsyncGenerator<Row[]> {
  let lastId: string | undefined = FIRST_ID
  while (lastId !== undefined) {
    const rows: Row[] = await selectPage(lastId, PAGE_SIZE)
    lastId = rows.length < PAGE_SIZE ? undefined : rows.at(-1)?.id
    if (rows.length > 0) yield rows
  }
}

/** Returns a time as the API has it. */
const formatTime = (name: string, value: unknown) =>
  name.endsWith('_at') && typeof value === 'string' ? new Date(value).toISOString() : value

async function printJson(selectPage: SelectPage): Promise<void> {
  let open = '['
  for await (const rows of readPages(selectPage)) {
    console.log(open + rows.map((row) => JSON.stringify(row, formatTime)).join(',\n'))
    open = ','
  }
  console.log(open === '[' ? '[]' : ']')
}

/** Prints aligned columns. Only the widest cells so far are known: a later page may have wider columns. */
async function printTable(selectPage: SelectPage, columns: readonly string[]): Promise<void> {
  let widths: number[] = []
  for await (const rows of readPages(selectPage)) {
    const lines = rows.map((row) => columns.map((name) => String(formatTime(name, row[name]) ?? '-')))
    if (widths.length === 0) lines.unshift([...columns])
    widths = columns.map((_, i) => Math.max(widths[i] ?? 0, ...lines.map((line) => line[i]?.length ?? 0)))
    const formatLine = (line: readonly string[]) =>
      line
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join('  ')
        .trimEnd()
    console.log(lines.map(formatLine).join('\n'))
  }
  if (widths.length === 0) console.error('None found')
}

/** Prints the result of a command: as one line of JSON, or as sentences. */
export const printResult = (json: true | undefined, result: object, text: string): void =>
  console.log(json ? JSON.stringify(result) : text)

/** Prints a JSON array with a line for each row, or a table with the columns. */
export const printRows = (json: true | undefined, columns: readonly string[], selectPage: SelectPage) =>
  json ? printJson(selectPage) : printTable(selectPage, columns)
