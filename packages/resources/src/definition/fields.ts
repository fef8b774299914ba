/** What a definition says of single fields: who reads and writes them. */
import type { CallerRole } from '@resource-api/api/actor'
import { roles } from '@resource-api/database/roles'
import type { TObject } from '@sinclair/typebox'

/** Fields of every resource: addresses, the default sort and `Last-Modified` depend on them. */
export const COMMON_FIELDS = ['id', 'created_at', 'updated_at'] as const

export type CommonField = (typeof COMMON_FIELDS)[number]

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
