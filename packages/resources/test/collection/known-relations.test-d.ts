/** The compiler knows the relations of all resources, those that others declare by `inverse` included: rules name them. */
import type {} from '../../../testing/helpers/organizations.ts'
import type { RelatedTables } from '../../src/definition/known-relations.ts'

export const relations: { [Name in 'path_tasks' | 'path_organizations']: keyof RelatedTables<Name> } = {
  path_tasks: 'project',
  path_organizations: 'projects',
}
