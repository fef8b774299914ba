/** What a definition says of single fields: who reads and writes them. */
import type { CallerRole } from '@resource-api/api/actor'
import { getRowParts } from '@resource-api/database/key'
import { roles } from '@resource-api/database/roles'
import type { TObject } from '@sinclair/typebox'
import type { PgTable } from 'drizzle-orm/pg-core'

/** Fields of every resource: addresses, the default sort and `Last-Modified` depend on them. */
export type CommonField = 'id' | 'created_at' | 'updated_at'

/** Returns the fields that the engine or the path sets, as `CommonField` for a table with any names. */
export function listCommonFields(table: PgTable): string[] {
  const { created, key, updated } = getRowParts(table)
  return ['id', ...key.parts.map(({ member }) => member), created ?? [], updated ?? []].flat()
}

/** The roles that may read and write a field. */
export interface FieldRule {
  /** For other roles, the field does not exist. Default: all roles. */
  read?: readonly CallerRole[]
  /** Other roles get 422 `READ_ONLY`. They must be able to read it. Default: the roles that may read it. */
  write?: readonly CallerRole[]
}

export const callerRoles: readonly CallerRole[] = [...roles, 'anonymous']

export const mayRead = (rule: FieldRule | undefined, role: CallerRole): boolean =>
  rule?.read?.includes(role) ?? true

export const mayWrite = ({ read, write = read }: FieldRule = {}, role: CallerRole): boolean =>
  write?.includes(role) ?? true

/** Returns whether a body can have a field. */
export const isWritten = ({ create, change }: Record<'create' | 'change', TObject>, name: string): boolean =>
  name in create.properties || name in change.properties
