/** `users list`, `api-keys list`: print accounts and keys, page by page. */
import type { Database, Param } from '../../drizzle/client/index.ts'
import { queryRows } from '../../drizzle/client/query-rows.ts'
import { roles, userStatuses } from '../../schemas/users.ts'
import { readConfig } from '../config.ts'
import { findUser } from './accounts.ts'
import type { Command } from './command.ts'
import { withMigratedDatabase } from './open.ts'

/** Rows that are in memory at a time. */
const PAGE_SIZE = 1_000

interface ListRow {
  id: string
  [field: string]: unknown
}

interface ListQuery {
  /** Selects a page: the rows after the id $1, in the order of the id, and at most $2 of them. */
  sql: string
  /** The values of the parameters from $3 on. */
  params: readonly Param[]
  /** The fields that hold a time. */
  times: readonly string[]
}

const FIRST_ID = '00000000-0000-0000-0000-000000000000'

/** Yields pages until the first one that is not full. Ids begin with the time of creation: the oldest row is first. */
async function* readPages(database: Database, { sql, params, times }: ListQuery): AsyncGenerator<ListRow[]> {
  let lastId: string | undefined = FIRST_ID
  while (lastId !== undefined) {
    const rows: ListRow[] = await queryRows<ListRow>(database, sql, [lastId, PAGE_SIZE, ...params])
    lastId = rows.length < PAGE_SIZE ? undefined : rows.at(-1)?.id
    for (const row of rows) for (const name of times) row[name] = formatTime(row[name])
    if (rows.length > 0) yield rows
  }
}

/** Returns a time as the API does. */
const formatTime = (value: unknown) => (typeof value === 'string' ? new Date(value).toISOString() : null)

const formatCell = (value: unknown): string => {
  if (value === null || value === undefined) return '-'
  return Array.isArray(value) ? value.join(',') : String(value)
}

/** Prints a JSON array with a line for each row. */
async function printJson(pages: AsyncIterable<ListRow[]>): Promise<void> {
  let open = '['
  for await (const rows of pages) {
    console.log(open + rows.map((row) => JSON.stringify(row)).join(',\n'))
    open = ','
  }
  console.log(open === '[' ? '[]' : ']')
}

/** Prints aligned columns. Only the widest cells so far are known: a later page may have wider columns. */
async function printTable(pages: AsyncIterable<ListRow[]>, columns: readonly string[]): Promise<void> {
  const widths = columns.map((name) => name.length)
  const formatLine = (cells: readonly string[]) =>
    cells.map((cell, i) => cell.padEnd(i === cells.length - 1 ? 0 : (widths[i] ?? 0))).join('  ')
  let hasHeader = false
  for await (const rows of pages) {
    const lines = rows.map((row) => columns.map((name) => formatCell(row[name])))
    for (const line of lines)
      for (const [i, cell] of line.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length)
    if (!hasHeader) console.log(formatLine(columns))
    hasHeader = true
    console.log(lines.map(formatLine).join('\n'))
  }
  if (!hasHeader) console.error('None found')
}

const USER_COLUMNS = ['id', 'email', 'name', 'role', 'status', 'created_at', 'updated_at']
const SELECT_USERS = `select ${USER_COLUMNS.join(', ')} from users
  where id > $1 and ($3::text is null or role = $3::text) and ($4::text is null or status = $4::text)
  order by id limit $2`

const KEY_COLUMNS = ['id', 'prefix', 'owner', 'name', 'scopes', 'last_used_at', 'expires_at', 'created_at']
const SELECT_KEYS = `select k.id, k.prefix, u.email as owner, k.name, k.scopes, k.last_used_at, k.expires_at, k.created_at
  from api_keys k join users u on u.id = k.user_id
  where k.id > $1 and ($3::uuid is null or k.user_id = $3::uuid)
  order by k.id limit $2`

const databaseHelp = `The oldest is first. --json prints one JSON array, with a line for each element.
Reads DATABASE_URL; servers may run at the same time. Without DATABASE_URL, reads the embedded database in DATA_DIR,
which no running server may have open.`

const json = { help: 'Print JSON' }

export const usersList: Command = {
  summary: 'List the users',
  details: databaseHelp,
  options: {
    role: { value: 'role', help: 'Only users with this role: member, manager or admin', choices: roles },
    status: {
      value: 'status',
      help: 'Only users with this status: active, inactive or suspended',
      choices: userStatuses,
    },
    json,
  },
  run: ({ role = null, status = null }, flags) =>
    withMigratedDatabase(readConfig(), (database) => {
      const times = ['created_at', 'updated_at']
      const pages = readPages(database, { sql: SELECT_USERS, params: [role, status], times })
      return flags.has('json') ? printJson(pages) : printTable(pages, USER_COLUMNS.slice(0, -1))
    }),
}

export const keysList: Command = {
  summary: 'List the API keys',
  details: `The keys themselves are not stored and cannot be shown. Expired keys are listed until they are deleted.\n${databaseHelp}`,
  options: { email: { value: 'address', help: 'Only keys of the user with this e-mail address' }, json },
  run: ({ email }, flags) =>
    withMigratedDatabase(readConfig(), async (database) => {
      const owner = email === undefined ? null : (await findUser(database, email)).id
      const times = ['last_used_at', 'expires_at', 'created_at']
      const pages = readPages(database, { sql: SELECT_KEYS, params: [owner], times })
      return flags.has('json') ? printJson(pages) : printTable(pages, KEY_COLUMNS.slice(0, -1))
    }),
}
