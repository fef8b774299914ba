/** Links in mails: with the token of one, its receiver sets a password or verifies an address, without other credentials. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { apiError } from '@resource-api/api/errors'
import { type Connection, isAnyOf, newId, prepare } from '@resource-api/database'
import { accountLinks, toNames } from '@resource-api/database/tables'
import { and, eq, gt, ne, or, type SQL, sql } from 'drizzle-orm'

export type LinkKind = 'reset' | 'invite' | 'verify'

/** The links that set a password. */
export const PASSWORD_LINKS = ['reset', 'invite'] as const

const TOKEN_BYTES = 32

export interface NewLink {
  kind: LinkKind
  /** The email address of a reset or an invitation; the id of the user of a verification. */
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

/** A link that can be used. */
export interface UsableLink {
  id: string
  subject: string
  email: string
  /** As PostgreSQL's text. */
  expires_at: string
}

const hashToken = (token: string): string => createHash('sha256').update(token).digest('base64url')

const { id, kind, subject, email, token_hash, expires_at } = accountLinks

const insert = prepare((db) =>
  db.execute<{ id: string; expires_at: string }>(sql`insert into ${accountLinks}
    (${toNames(id, kind, subject, email, token_hash, expires_at)})
    values (${sql.placeholder('id')}::uuid, ${sql.placeholder('kind')}, ${sql.placeholder('subject')},
      ${sql.placeholder('email')}, ${sql.placeholder('tokenHash')},
      now() + ${sql.placeholder('lifetimeMs')} * interval '1 millisecond')
    returning ${id}, ${expires_at}`),
)

/** Creates a link. Those before it can still be used, so that no request of a stranger voids the link of a user. */
export async function createLink(connection: Connection, link: NewLink): Promise<CreatedLink> {
  const token = randomBytes(TOKEN_BYTES).toString('base64url')
  const [created] = await insert(connection, { ...link, id: newId(), tokenHash: hashToken(token) })
  if (!created) throw new Error('The link was not stored')
  return { id: created.id, token, expiresAt: created.expires_at }
}

const isUsable = and(
  eq(id, sql.placeholder('id')),
  isAnyOf(kind, sql.placeholder('kinds')),
  gt(expires_at, sql`now()`),
)
const columns = { id, subject, email, expires_at, token_hash }

const selectUsable = prepare((db) => db.select(columns).from(accountLinks).where(isUsable))

const lockUsable = prepare((db) => db.select(columns).from(accountLinks).where(isUsable).for('update'))

/**
 * Returns the link with an id and a token; undefined if there is none that can be used. A wrong token changes nothing: 256
 * bits cannot be guessed, and a limit would let anyone who knows the id of a link void it.
 * @param isLocking whether the link is locked until the transaction ends
 */
export async function findLink(
  connection: Connection,
  link: { kinds: readonly LinkKind[]; id: string; token: string },
  isLocking = false,
): Promise<UsableLink | undefined> {
  const [found] = await (isLocking ? lockUsable : selectUsable)(connection, {
    id: link.id,
    kinds: link.kinds,
  })
  if (!found) return undefined
  const { token_hash: expected, ...usable } = found
  // Both have the length of a SHA-256 hash.
  return timingSafeEqual(Buffer.from(hashToken(link.token)), Buffer.from(expected)) ? usable : undefined
}

const deleteById = prepare((db) => db.delete(accountLinks).where(eq(id, sql.placeholder('id'))))

/** Deletes a link that was used. */
export async function deleteLink(tx: Connection, link: Pick<UsableLink, 'id'>): Promise<void> {
  await deleteById(tx, { id: link.id })
}

/** The verifications of a user, except those of one address. */
const isOtherVerification: SQL | undefined = and(
  eq(kind, 'verify'),
  eq(subject, sql.placeholder('userId')),
  sql`${email} is distinct from ${sql.placeholder('keptEmail')}`,
)

const deleteOtherVerifications = prepare((db) => db.delete(accountLinks).where(isOtherVerification))

/** Voids the verifications of a user, except those of one address: the user has asked for that one last. */
export async function voidOtherVerifications(
  tx: Connection,
  names: { userId: string; keptEmail: string },
): Promise<void> {
  await deleteOtherVerifications(tx, names)
}

const deleteOfUser = prepare((db) =>
  db
    .delete(accountLinks)
    .where(or(and(ne(kind, 'verify'), isAnyOf(subject, sql.placeholder('emails'))), isOtherVerification)),
)

/**
 * Voids the links of a user.
 * @param emails whose resets and invitations are void
 * @param userId whose verifications are void
 * @param keptEmail the address whose verifications stay
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
