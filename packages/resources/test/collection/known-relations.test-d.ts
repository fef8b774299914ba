/** The compiler knows the relations of all resources, those that others declare by `inverse` included: rules name them. */
import type { RelatedTables } from '../../src/collection/known-relations.ts'

export const relations: { [Name in 'posts' | 'users']: keyof RelatedTables<Name> } = {
  posts: 'user',
  users: 'posts',
}
