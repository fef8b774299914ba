/** The tables of credentials: API keys, sessions, and what is known of how users sign in. */
import { index, jsonb, pgTable, primaryKey, uniqueIndex } from 'drizzle-orm/pg-core'
import { common, integer, moment, text } from './columns.ts'
import { userId } from './user-tables.ts'

/** API keys. Only the SHA-256 hash of a key is stored. */
export const apiKeys = pgTable(
  'api_keys',
  {
    ...common(),
    user_id: userId(),
    name: text().notNull(),
    prefix: text().notNull(),
    key_hash: text().notNull(),
    scopes: jsonb().$type<string[]>().notNull(),
    expires_at: moment().notNull(),
    rate_limit: integer(),
    last_used_at: moment(),
  },
  (t) => [
    uniqueIndex('api_keys_key_hash_unique').on(t.key_hash),
    index('api_keys_created_at').on(t.created_at, t.id),
    index('api_keys_user_id').on(t.user_id, t.created_at, t.id),
  ],
)

/**
 * Sign-in sessions. A session that has ended is deleted. Of the refresh tokens, only the SHA-256 hash of the current
 * one is stored.
 */
export const sessions = pgTable(
  'sessions',
  {
    ...common(),
    user_id: userId(),
    /** How often the refresh token was rotated. Each token contains its number. */
    generation: integer().notNull().default(0),
    refresh_hash: text().notNull(),
    /** The times of the latest rotations, newest first, of tokens that may still be used again. */
    rotations: moment().array().notNull().default([]),
    last_used_at: moment().notNull().defaultNow(),
    /** When the session ends if it is not used before; never later than `ends_at`. */
    expires_at: moment().notNull(),
    /** When the session ends even if it is used. */
    ends_at: moment().notNull(),
    ip: text(),
    user_agent: text(),
  },
  (t) => [
    index('sessions_created_at').on(t.created_at, t.id),
    index('sessions_user_id').on(t.user_id, t.created_at, t.id),
    index('sessions_expires_at').on(t.expires_at),
  ],
)

/** Links between users and the subjects of identity providers (`iss` and `sub` of a token). */
export const userIdentities = pgTable(
  'user_identities',
  {
    user_id: userId(),
    issuer: text().notNull(),
    subject: text().notNull(),
    created_at: moment().notNull().defaultNow(),
  },
  (t) => [
    primaryKey({ columns: [t.user_id, t.issuer] }),
    uniqueIndex('user_identities_subject_unique').on(t.issuer, t.subject),
  ],
)

/**
 * IP addresses from which a user signed in, each as a keyed hash of email address and IP address
 * (`sign-in-addresses.ts` of `@resource-api/accounts`). The hash is the primary key, so that a lookup costs the same
 * whether the account exists or not.
 */
export const signInAddresses = pgTable(
  'sign_in_addresses',
  {
    address_hash: text().primaryKey(),
    user_id: userId(),
    signed_in_at: moment().notNull().defaultNow(),
  },
  (t) => [
    index('sign_in_addresses_user_id').on(t.user_id, t.signed_in_at),
    index('sign_in_addresses_signed_in_at').on(t.signed_in_at),
  ],
)
