/** The relations that the compiler knows, so that it checks each step of the paths in access rules. */
import type { ResourceTable } from './resource-table.ts'

/**
 * The relations of definitions, by the names of their tables. A definition adds its own with `declare module`, from a
 * constant beside it: its own type depends on its rules, and so on the relations of others, which may lead back to it.
 * @public
 */
// biome-ignore lint/suspicious/noEmptyInterface: definitions add to it
export interface KnownRelations {}

type DeclaredTargets<Known> = Known extends { relations: infer Relations }
  ? { [R in keyof Relations]: Relations[R] extends { to: infer To } ? To : never }
  : never

/** The relations that a definition declares for others by `inverse`, as [table of the other, relation, own table]. */
type InverseEdges<Known> = Known extends { table: infer T; relations: infer Relations }
  ? {
      [R in keyof Relations]: Relations[R] extends {
        to: infer To extends ResourceTable
        inverse: infer Inverse extends string
      }
        ? [To['_']['name'], Inverse, T]
        : never
    }[keyof Relations]
  : never

type InverseEdge = {
  [Name in keyof KnownRelations]: InverseEdges<KnownRelations[Name]>
}[keyof KnownRelations]

type InverseTargets<Name> = {
  [Edge in Extract<InverseEdge, readonly [Name, ...unknown[]]> as Edge[1]]: Edge[2]
}

/** The related tables of a table, by the names of the relations. @typeParam Name the name of the table */
export type RelatedTables<Name> = InverseTargets<Name> &
  (Name extends keyof KnownRelations ? DeclaredTargets<KnownRelations[Name]> : unknown)
