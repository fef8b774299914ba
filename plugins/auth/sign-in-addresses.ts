/**
 * Records the IP addresses from which an account signed in, so that failed sign-ins from other addresses cannot lock its
 * owner out (`plugins/rate-limit/attempts.ts`).
 */
import { createHmac } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Database } from '../../drizzle/client/index.ts'

interface SignInAddressesOptions {
  /** Key of the HMAC; the same on every replica. */
  secret: Buffer
}

export const RETENTION_DAYS = 30
const RENEWAL_DAYS = 1
const MAX_ADDRESSES_PER_USER = 100

// The e-mail address is compared too, since another user may have it after a change.
const SELECT_KNOWN = `select 1 from sign_in_addresses a join users u on u.id = a.user_id
  where a.address_hash = $1 and u.email = $2 and a.signed_in_at > now() - interval '${RETENTION_DAYS} days'`

// For Citus: without `materialized` it sends its nodes a statement with a syntax error, and `do update` may call only
// immutable functions, so not `now()`, which is the default of the inserted `signed_in_at`.
const UPSERT = `with account as materialized (select id from users where id = $2)
  insert into sign_in_addresses (address_hash, user_id) select $1::text, id from account
  on conflict (address_hash) do update set user_id = excluded.user_id, signed_in_at = excluded.signed_in_at
    where sign_in_addresses.user_id <> excluded.user_id
      or excluded.signed_in_at - sign_in_addresses.signed_in_at > interval '${RENEWAL_DAYS} days'
  returning user_id`

const DELETE_OLDEST = `delete from sign_in_addresses where user_id = $1 and address_hash not in (
    select address_hash from sign_in_addresses where user_id = $1
    order by signed_in_at desc, address_hash limit ${MAX_ADDRESSES_PER_USER})`

/** An account, by its e-mail address, and the IP address of a request for it. */
interface SignInAddress {
  account: string
  address: string
}

function createSignInAddresses(database: Database, secret: Buffer) {
  // The IP address itself is not stored, and its hash differs for each account.
  const hash = ({ account, address }: SignInAddress): string =>
    createHmac('sha256', secret).update(`${account}\n${address}`).digest('base64url')

  return {
    /** Returns whether the account signed in from the address within 30 days. An unknown account takes the same query. */
    async isKnown(from: SignInAddress): Promise<boolean> {
      return (await database.run(SELECT_KNOWN, [hash(from), from.account])).length > 0
    },

    /** Records a sign-in. A known address is updated at most once a day. */
    async record(userId: string, from: SignInAddress): Promise<void> {
      const written = await database.run(UPSERT, [hash(from), userId])
      if (written.length > 0) await database.run(DELETE_OLDEST, [userId])
    },
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    signInAddresses: ReturnType<typeof createSignInAddresses>
  }
}

async function signInAddresses(app: FastifyInstance, { secret }: SignInAddressesOptions) {
  app.decorate('signInAddresses', createSignInAddresses(app.database, secret))
}

export default fp(signInAddresses, { name: 'sign-in-addresses', dependencies: ['database'] })
