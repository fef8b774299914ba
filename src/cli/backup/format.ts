/**
 * The format of a backup file: lines of JSON, compressed with gzip. The first line is the header. Then each table has a
 * line with its name, and a line for each row (`rows.ts`). The last line has the checksums.
 */
import { type Static, Type } from '@sinclair/typebox'
import { identity } from '../../../lib/identity.ts'

/** Incremented by a change that older releases cannot read. */
export const FORMAT_VERSION = 1
const FORMAT_NAME = identity.backupFormat

const Table = Type.Object({
  name: Type.String(),
  /** The names, in the order of the values in a row. */
  columns: Type.Array(Type.String()),
  rows: Type.Integer(),
})

/** What every version of the format has. */
export const FormatMark = Type.Object({ format: Type.Literal(FORMAT_NAME), version: Type.Integer() })

export const Header = Type.Object({
  format: Type.Literal(FORMAT_NAME),
  version: Type.Literal(FORMAT_VERSION),
  release: Type.String(),
  /** RFC 3339, UTC. */
  created_at: Type.String(),
  database: Type.Union([Type.Literal('embedded'), Type.Literal('server')]),
  migrations: Type.Array(Type.Integer()),
  tables: Type.Array(Table),
  sequences: Type.Array(
    Type.Object({ name: Type.String(), next: Type.String({ pattern: '^-?[0-9]{1,19}$' }) }),
  ),
  /** The secret that is kept in `DATA_DIR`, if it is included. */
  app_secret: Type.Optional(Type.String({ minLength: 32 })),
})

export type Header = Static<typeof Header>

export const TableMark = Type.Object({ table: Type.String() })

export const Trailer = Type.Object({
  checksums: Type.Record(Type.String(), Type.Object({ rows: Type.Integer(), sha256: Type.String() })),
  /** Of all lines before, each with its line feed. */
  sha256: Type.String(),
})

export const formatHeader = (header: Omit<Header, 'format' | 'version'>): string =>
  JSON.stringify({ format: FORMAT_NAME, version: FORMAT_VERSION, ...header } satisfies Header)
