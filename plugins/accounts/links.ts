/** Links in mails: with the token of one, its receiver sets a password or verifies an address, without other credentials. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { and, eq, gt, lt, or, sql } from 'drizzle-orm'
import { accountLinks } from '../../drizzle/account-tables.ts'
import { prepare } from '../../drizzle/client/prepare.ts'
import type { Connection } from '../../drizzle/client/types.ts'
import { isAnyOf, toNames } from '../../drizzle/expressions.ts'
import { newId } from '../../lib/ids.ts'
import { apiError } from '../errors/index.ts'

export type LinkKind = 'reset' | 'verify'

const TOKEN_BYTES = 32

/** The wrong tokens that void a link. */
export const MAX_WRONG_TOKENS = 5

export interface NewLink {
  kind: LinkKind
  /** The e-mail address of a reset or an invitation; the id of the user of a verification. */
  subject: string
  /** The address to which it is sent. */
  email: string
  /** Milliseconds for which it can be used. */
  lifetimeMs: number
}

/** A link that was created. The token is in the mail only. */
export interface CreatedLink {
  id: string
  token: string
  /** As PostgreSQL's text. */
  expiresAt: string
}

/** A link that can be used, which its transaction has locked. */
export interface UsableLink {
  id: string
  subject: string
  email: string
  /** As PostgreSQL's text. */
  expires_at: string
}

const hashToken = (token: string): string => createHash('sha256').update(token).digest('base64url')

const { id, kind, subject, email, token_hash, wrong_tokens, created_at, expires_at } = accountLinks

const upsert = prepare((db) => {
  const replaced = [id, email, token_hash, wrong_tokens, created_at, expires_at]
  return db.execute<{ id: string; expires_at: string }>(sql`insert into ${accountLinks}
    (${toNames(id, kind, subject, email, token_hash, expires_at)})
    values (${sql.placeholder('id')}::uuid, ${sql.placeholder('kind')}, ${sql.placeholder('subject')},
      ${sql.placeholder('email')}, ${sql.placeholder('tokenHash')},
      now() + ${sql.placeholder('lifetimeMs')} * interval '1 millisecond')
    on conflict (${toNames(kind, subject)}) do update set ${sql.join(
      replaced.map((column) => sql`${toNames(column)} = excluded.${toNames(column)}`),
      sql`, `,
    )}
    returning ${id}, ${expires_at}`)
})

/** Creates a link, which voids the one before it of the same kind and subject. */
export async function createLink(connection: Connection, link: NewLink): Promise<CreatedLink> {
  const token = randomBytes(TOKEN_BYTES).toString('base64url')
  const [created] = await upsert(connection, { ...link, id: newId(), tokenHash: hashToken(token) })
  if (!created) throw new Error('The link was not stored')
  return { id: created.id, token, expiresAt: created.expires_at }
}

const lockUsable = prepare((db) =>
  db
    .select({ id, subject, email, expires_at, token_hash })
    .from(accountLinks)
    .where(
      and(
        eq(id, sql.placeholder('id')),
        eq(kind, sql.placeholder('kind')),
        gt(expires_at, sql`now()`),
        lt(wrong_tokens, MAX_WRONG_TOKENS),
      ),
    )
    .for('update'),
)

const countWrongToken = prepare((db) =>
  db
    .update(accountLinks)
    .set({ wrong_tokens: sql`${wrong_tokens} + 1` })
    .where(eq(id, sql.placeholder('id'))),
)

/**
 * Checks the token of a link, and counts a wrong one: the caller must commit the transaction.
 * @returns the link, locked until the transaction ends; undefined if there is none with this id and token that can be used
 */
export async function findLink(
  tx: Connection,
  link: { kind: LinkKind; id: string; token: string },
): Promise<UsableLink | undefined> {
  const [found] = await lockUsable(tx, { id: link.id, kind: link.kind })
  if (!found) return undefined
  const { token_hash: expected, ...usable } = found
  // Both have the length of a SHA-256 hash.
  if (timingSafeEqual(Buffer.from(hashToken(link.token)), Buffer.from(expected))) return usable
  await countWrongToken(tx, { id: link.id })
  return undefined
}

const deleteById = prepare((db) => db.delete(accountLinks).where(eq(id, sql.placeholder('id'))))

/** Deletes a link that was used. */
export async function deleteLink(tx: Connection, link: Pick<UsableLink, 'id'>): Promise<void> {
  await deleteById(tx, { id: link.id })
}

const deleteOfUser = prepare((db) =>
  db
    .delete(accountLinks)
    .where(
      or(
        and(eq(kind, 'reset'), isAnyOf(subject, sql.placeholder('emails'))),
        and(
          eq(kind, 'verify'),
          eq(subject, sql.placeholder('userId')),
          sql`${email} is distinct from ${sql.placeholder('keptEmail')}`,
        ),
      ),
    ),
)

/**
 * Voids the links of a user.
 * @param emails whose resets and invitations are void
 * @param userId whose verifications are void
 * @param keptEmail the address whose verification stays
 */
export async function voidLinks(
  tx: Connection,
  { emails, userId, keptEmail }: { emails: readonly string[]; userId: string; keptEmail: string | null },
): Promise<void> {
  await deleteOfUser(tx, { emails: [...new Set(emails)], userId, keptEmail })
}

/** Returns the error for a link that cannot be used: the same for an unknown id, a wrong token, and one that is void. */
export const refuseLink = () =>
  apiError('FORBIDDEN', { message: 'The link is invalid, has expired or was used already' })
