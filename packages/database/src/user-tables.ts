/** The tables of users and their profiles. A column has the name of its field in the API; a column that is in no schema is never sent. */
import { sql } from 'drizzle-orm'
import { index, pgTable, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import type { Role } from './application.ts'
import { common, folded, foldedLine, moment, text, trigrams } from './columns.ts'

// Every sort of a list has an index with `id` as the last column in the same direction, unless the column is unique.
// PostgreSQL scans it in either direction, and a page costs the same at any depth.

export const users = pgTable(
  'users',
  {
    ...common(),
    name: text().notNull(),
    email: text().notNull(),
    /**
     * When the user proved to receive mail at the address, or an admin, the command line or the bootstrap set it; null for
     * an address that only the user has entered. Only a verified address lets the first token of an identity provider link
     * the account.
     */
    email_verified_at: moment(),
    password_hash: text(),
    role: text().$type<Role>().notNull().default('member'),
    status: text().$type<'active' | 'inactive' | 'suspended'>().notNull().default('active'),
    search: folded(),
  },
  (t) => [
    uniqueIndex('users_email_unique').on(t.email),
    index('users_created_at').on(t.created_at, t.id),
    index('users_updated_at').on(t.updated_at, t.id),
    index('users_name').on(t.name, t.id),
    index('users_status').on(t.status, t.created_at, t.id),
    index('users_role').on(t.role, t.created_at, t.id),
    index('users_name_prefix').on(foldedLine(t.search, 1)),
    index('users_email_prefix').on(foldedLine(t.search, 2)),
    trigrams('users_search', t.search),
  ],
)

/** The user whose row it is. It is deleted with the user. */
export const userId = () =>
  uuid()
    .notNull()
    .references(() => users.id, { onDelete: 'cascade' })

export const userProfiles = pgTable(
  'user_profiles',
  {
    ...common(),
    user_id: userId(),
    display_name: text(),
    bio: text(),
    avatar_url: text(),
    website_url: text(),
    location: text(),
    time_zone: text(),
    locale: text(),
    search: folded(),
  },
  (t) => [
    uniqueIndex('user_profiles_user_id_unique').on(t.user_id),
    index('user_profiles_created_at').on(t.created_at, t.id),
    index('user_profiles_updated_at').on(t.updated_at, t.id),
    index('user_profiles_display_name_asc').on(sql`(coalesce('0' || ${t.display_name}, '1'))`, t.id),
    index('user_profiles_display_name_desc').on(sql`(coalesce(${t.display_name}, ''))`, t.id),
    trigrams('user_profiles_search', t.search),
  ],
)
