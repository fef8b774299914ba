/** A compiled resource: what its definition says, with relations and parents resolved, and the functions over its rows. */
import type { Actor, CallerRole } from '@resource-api/api/actor'
import type { Entity } from '@resource-api/api/results'
import type { Rule } from '@resource-api/api/rules'
import type { Connection } from '@resource-api/database'
import type { Values } from '@resource-api/database/client'
import type { RowId, RowParts } from '@resource-api/database/key'
import type { SQL } from 'drizzle-orm'
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core'
import type { ChangeOrigin } from '../outbox/origin.ts'
import type { Code, Locks } from './code.ts'
import type { ResourceDefinition } from './definition.ts'
import type { FilterValue, ListQuery } from './query.ts'
import type { Constraint, RelationDefinition } from './resource-table.ts'
import type { OtherStore, Row, RowStore, StoreCall } from './store.ts'

interface Relation extends Omit<RelationDefinition, 'to'> {
  to: Resource
}

/** A field of a body or of the path with a foreign key to a resource, whose row the caller must be able to read. @public In declarations. */
export interface Reference {
  field: string
  to: Resource
  /** The column of the other table that the field equals. */
  foreign: string
}

/**
 * The lock on a row, as strong as the write to come: a transaction that made its lock stronger later could deadlock.
 * `update` is for a removal and for new values of a unique index, `no key update` for other changes, which permit new
 * references to the row; `key share` is for references to the row, which do not wait for each other.
 */
export type Lock = 'update' | 'no key update' | 'key share'

/** What a response needs of a row: the requested fields, the keys of relations, and the columns of the access rule. */
interface RowSelection {
  fields?: readonly string[] | undefined
  include?: readonly string[]
  rule?: Rule
  actor?: Actor
}

/** The rows that a list may contain: those under a parent, and those that a rule lets the caller read. */
export interface ListScope {
  rule: Rule
  actor: Actor
  /** The id of the parent in the path; undefined if the resource has no parent. */
  parent: RowId | undefined
}

export interface PageScope extends ListScope {
  /** After which the rows begin; undefined for the first ones. */
  position: readonly string[] | undefined
  size: number
}

interface PageRows {
  rows: Row[]
  /** The number of all rows of the list. */
  total: number | undefined
}

export type RelatedRow = Row & {
  parent_key: string
  /** Whether its long fields were left out, because the included rows before it fill the response. */
  is_cut?: boolean
}

interface RelatedScope {
  rule: Rule
  actor: Actor
  /** Rows of each parent. */
  limit: number
  /** Of all rows of a to-many relation together. */
  maxBytes: number
}

/** The places of a row and of a caller to whom it is permitted. */
export type Permission = { row: number; caller: number }

export interface Select {
  /** The limit from which the rows of a page may not fit into a response. */
  largePage: number
  /** Returns about how many bytes a row takes in a response. */
  estimateRowBytes(row: Row): number
  /** Reads what a response needs of one row. With a rule that has paths, `is_allowed` says whether it admits the row. */
  one(connection: Connection, id: RowId, selection: RowSelection): Promise<Row | undefined>
  /** Reads all columns of one row, for a write. */
  whole(connection: Connection, id: RowId): Promise<Row | undefined>
  /** As `whole`, and locks the row until the transaction ends; undefined if the rule does not permit the row. */
  locked(
    connection: Connection,
    id: RowId,
    mode: Lock,
    scope: Pick<ListScope, 'rule' | 'actor'>,
  ): Promise<Row | undefined>
  /** Locks those of the rows that the rule permits, in the order of their ids, until the transaction ends. */
  lockAll(
    connection: Connection,
    ids: readonly RowId[],
    mode: Lock,
    scope: Pick<ListScope, 'rule' | 'actor'>,
  ): Promise<void>
  /** Reads the ids of the rows that have one of the values in a unique column, with that column and the parent's id. */
  byValues(connection: Connection, name: string, values: readonly FilterValue[]): Promise<Row[]>
  /**
   * Reads all columns of the rows that have one of the values in a unique column and that the scope admits, and locks them.
   * For a write. Other rows are not locked.
   */
  lockByValues(
    connection: Connection,
    name: string,
    values: readonly FilterValue[],
    scope: ListScope,
  ): Promise<Row[]>
  /**
   * Returns whether a rule admits the row with a value in a column. It locks nothing: the foreign key locks the row (FOR KEY
   * SHARE) when the reference is written, after the locks of an action that changes that row.
   */
  isReadable(
    connection: Connection,
    name: string,
    value: unknown,
    scope: Pick<ListScope, 'rule' | 'actor'>,
  ): Promise<boolean>
  /**
   * Returns which rows a rule of paths permits to which callers, by their places in the lists. The rows need not be stored:
   * they are as they were, as they become, or those of events.
   */
  findPermitted(
    connection: Connection,
    rule: Rule,
    rows: readonly Values[],
    callers: readonly string[],
  ): Promise<Permission[]>
  /**
   * Reads `size` rows of a list. With a position, rows after it are read and no offset applies; otherwise, a query with
   * a page number has a total too.
   * @throws ApiError 400 INVALID_CURSOR for a position with too few values, which another release wrote
   */
  page(connection: Connection, query: ListQuery, scope: PageScope): Promise<PageRows>
  /**
   * Reads related rows, newest first, each with the key of its parent as `parent_key`. Rows of a to-many relation beyond
   * `maxBytes` have `is_cut: true` and null in place of their text and JSON.
   */
  related(
    connection: Connection,
    relation: Omit<RelationDefinition, 'to'>,
    keys: readonly FilterValue[],
    scope: RelatedScope,
  ): Promise<RelatedRow[]>
}

export interface ChangeTarget {
  id: RowId
  parent: RowId | undefined
  /** Builds the condition on rows that the role of the caller may change. */
  buildAllowed(): SQL | undefined
  actor: Actor
  origin: ChangeOrigin
}

/** A row that was read and locked, and the values that it gets: those that differ. */
export interface RowUpdate {
  current: Row
  values: Values
}

export interface Stores {
  /** Returns the API error for a statement that the database refused, and any other error unchanged. */
  toApiError(error: unknown): unknown
  store(connection: Connection, origin: ChangeOrigin): RowStore<Row>
  /** Locks a table with an exclusion constraint, if it has one, for writes. It comes before the locks of its rows. */
  lockTable(connection: Connection): Promise<void>
  /**
   * Updates a row without reading it. Resolves to undefined if the row does not exist under that parent, if the rule does
   * not allow it, if it has these values already, or if another transaction has locked it.
   */
  changeAtOnce(connection: Connection, target: ChangeTarget, values: Values): Promise<Row | undefined>
  /** Inserts rows, and returns them: by one statement for all that follow each other with the same columns. */
  insertRows(connection: Connection, origin: ChangeOrigin, rows: readonly Values[]): Promise<Row[]>
  /**
   * Updates rows that are locked, and returns them as they are now: by one statement for all that follow each other, except
   * rows with a new value in a unique column. Their events have the order of the changes.
   */
  changeRows(connection: Connection, origin: ChangeOrigin, changes: readonly RowUpdate[]): Promise<Row[]>
  /** Deletes a row that is locked, and those that depend on it. @throws ApiError 409 if others refer to it */
  removeRow(connection: Connection, origin: ChangeOrigin, current: Row): Promise<void>
}

/** Returns a resource of a response with the id and the named fields of a row, or all fields, as the caller sees them. */
export type RowMapper = (
  row: Row,
  actor: Actor,
  names?: readonly string[],
  relations?: Entity['relations'],
) => Entity

export interface Resource extends Omit<ResourceDefinition, 'relations' | 'parent'> {
  relations: Readonly<Record<string, Relation>>
  parent?: { to: Resource; member: string }
  references: readonly Reference[]
  /**
   * Returns the resource as a role sees it: its schemas, lists and filters by relations have no field that the role may not
   * read. It is the resource itself if the role may read and write all.
   */
  forRole(role: CallerRole): Resource
  /** The fields that the role may not read; none of the resource for all roles. */
  hidden: readonly string[]
  /** The fields that the role may not write, with the hidden ones. The schemas of bodies have the others: PUT may repeat them. */
  readOnly: readonly string[]
  /** What its routes run of its own, once they are registered. */
  code: Code & { locks?: Locks }
  /** Opens its store for code of other resources, in any version, once its routes are registered. */
  openOtherStore?: (connection: Connection, call: StoreCall) => OtherStore<Row>
  /** All resources by their tables. */
  resources: ReadonlyMap<PgTable, Resource>
  columns: Readonly<Record<string, PgColumn>>
  /** How its rows are addressed. */
  rowParts: RowParts
  /** The constraints that the database has; undefined if they are not known. */
  catalog?: readonly Constraint[]
  /** Whether writes to the table wait for each other, in transactions. */
  hasExclusion: boolean
  /** The columns in which no two rows are alike. */
  uniqueColumns: ReadonlySet<string>
  /** The columns whose change needs the lock `update`. */
  keyColumns: ReadonlySet<string>
  /** The columns of each index over all rows; undefined in place of an expression. */
  indexes: readonly (readonly (string | undefined)[])[]
  select: Select
  stores: Stores
  /** Draws the id of a row that the database makes; undefined if its default makes none. */
  drawId: ((connection: Connection) => Promise<RowId | undefined>) | undefined
  toEntity: RowMapper
}
