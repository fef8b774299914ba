/** Prints rows page by page, so that memory does not grow with their number: as a table, or as a JSON array. */

/** Rows that are in memory at a time. */
const PAGE_SIZE = 1_000
const FIRST_ID = '00000000-0000-0000-0000-000000000000'

interface Row {
  id: string
  [field: string]: unknown
}

/** Selects at most `limit` rows after an id, in the order of the id. */
export type SelectPage = (afterId: string, limit: number) => PromiseLike<Row[]>

/** Yields pages until the first one that is not full. Ids begin with the time of creation: the oldest row is first. */
async function* readPages(selectPage: SelectPage): AsyncGenerator<Row[]> {
  let lastId: string | undefined = FIRST_ID
  while (lastId !== undefined) {
    const rows: Row[] = await selectPage(lastId, PAGE_SIZE)
    lastId = rows.length < PAGE_SIZE ? undefined : rows.at(-1)?.id
    if (rows.length > 0) yield rows.map(formatTimes)
  }
}

/** Returns the row with its times as the API has them. */
const formatTimes = (row: Row): Row => {
  const entries = Object.entries(row).map(([name, value]) => [
    name,
    name.endsWith('_at') && typeof value === 'string' ? new Date(value).toISOString() : value,
  ])
  return Object.fromEntries(entries)
}

/** Prints a JSON array with a line for each row. */
export async function printJson(selectPage: SelectPage): Promise<void> {
  let open = '['
  for await (const rows of readPages(selectPage)) {
    console.log(open + rows.map((row) => JSON.stringify(row)).join(',\n'))
    open = ','
  }
  console.log(open === '[' ? '[]' : ']')
}

/** Prints aligned columns. Only the widest cells so far are known: a later page may have wider columns. */
export async function printTable(selectPage: SelectPage, columns: readonly string[]): Promise<void> {
  const widths = columns.map((name) => name.length)
  const formatLine = (cells: readonly string[]) =>
    cells.map((cell, i) => cell.padEnd(i === cells.length - 1 ? 0 : (widths[i] ?? 0))).join('  ')
  let hasHeader = false
  for await (const rows of readPages(selectPage)) {
    const lines = rows.map((row) => columns.map((name) => String(row[name] ?? '-')))
    for (const line of lines)
      for (const [i, cell] of line.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length)
    if (!hasHeader) console.log(formatLine(columns))
    hasHeader = true
    console.log(lines.map(formatLine).join('\n'))
  }
  if (!hasHeader) console.error('None found')
}
