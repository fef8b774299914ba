/** Defines user profiles: the public description of a user, one per user. */
import { sql } from 'drizzle-orm'
import { userProfiles, users } from '../../drizzle/user-tables.ts'
import { toEveryRole } from '../../schemas/roles.ts'
import { UserProfile, UserProfileChange, UserProfileCreate } from '../../schemas/user-profiles.ts'
import { CALLER } from '../access/rules.ts'
import { defineResource, type ResourceDefinition } from '../collection/definition.ts'

const relations = { user: { to: users, local: 'user_id', foreign: 'id', many: false } } as const

declare module '../collection/known-relations.ts' {
  interface KnownRelations {
    user_profiles: { table: typeof userProfiles; relations: typeof relations }
  }
}

const own = [{ user_id: CALLER }] as const
const ownerOrStaff = { ...toEveryRole(own), admin: true, manager: true } as const

export const userProfilesResource: ResourceDefinition = defineResource({
  name: 'user-profiles',
  singular: 'UserProfile',
  plural: 'UserProfiles',
  description: 'Public descriptions of users, one per user',
  table: userProfiles,
  schemas: { read: UserProfile, create: UserProfileCreate, change: UserProfileChange },
  immutable: ['user_id'],
  filters: ['user_id'],
  nullChecks: ['display_name', 'bio', 'avatar_url', 'website_url', 'location', 'time_zone', 'locale'],
  // An index of each would slow down every write.
  unindexed: [
    'display_name_null',
    'bio_null',
    'avatar_url_null',
    'website_url_null',
    'location_null',
    'time_zone_null',
    'locale_null',
  ],
  sorts: {
    display_name: {
      column: userProfiles.display_name,
      ascending: sql`coalesce('0' || ${userProfiles.display_name}, '1')`,
      descending: sql`coalesce(${userProfiles.display_name}, '')`,
      nulls: { ascending: '1', descending: '' },
      prefix: '0',
    },
    created_at: userProfiles.created_at,
    updated_at: userProfiles.updated_at,
  },
  search: ['display_name', 'bio'],
  relations,
  access: {
    list: { ...ownerOrStaff, member: true },
    read: { ...ownerOrStaff, member: true },
    create: ownerOrStaff,
    replace: ownerOrStaff,
    update: ownerOrStaff,
    remove: ownerOrStaff,
  },
  defaults: (actor) => ({ user_id: actor.userId }),
})
