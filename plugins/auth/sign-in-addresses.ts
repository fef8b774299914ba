/**
 * Remembers from which IP addresses an account signed in, so that failed sign-ins of strangers cannot lock its owner
 * out (`limits/attempts.ts`).
 */
import { createHmac } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Database } from '../../drizzle/client/index.ts'
import { repeat } from '../../lib/background-task.ts'

interface SignInAddressesOptions {
  /** Key of the hashes; the same on every replica. */
  secret: Buffer
}

const RETENTION_DAYS = 30
const RENEWAL_DAYS = 1
const MAX_ADDRESSES_PER_USER = 100
const PRUNE_BATCH_SIZE = 500
const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000

// The e-mail address is compared too: after a change of it, another user may have it.
const FIND = `select 1 from sign_in_addresses a join users u on u.id = a.user_id
  where a.address_hash = $1 and u.email = $2 and a.signed_in_at > now() - interval '${RETENTION_DAYS} days'`

const REMEMBER = `insert into sign_in_addresses (address_hash, user_id) select $1::text, id from users where id = $2
  on conflict (address_hash) do update set user_id = excluded.user_id, signed_in_at = now()
    where sign_in_addresses.user_id <> excluded.user_id
      or sign_in_addresses.signed_in_at < now() - interval '${RENEWAL_DAYS} days'
  returning user_id`

const DROP_OLDEST = `delete from sign_in_addresses where user_id = $1 and address_hash not in (
    select address_hash from sign_in_addresses where user_id = $1
    order by signed_in_at desc, address_hash limit ${MAX_ADDRESSES_PER_USER})`

const PRUNE = `delete from sign_in_addresses where address_hash in (
    select address_hash from sign_in_addresses where signed_in_at <= now() - interval '${RETENTION_DAYS} days'
    limit ${PRUNE_BATCH_SIZE} for update skip locked)
  returning user_id`

/** An account, by its e-mail address, and the IP address of a request for it. */
interface SignInAddress {
  account: string
  address: string
}

function createSignInAddresses(database: Database, secret: Buffer) {
  // The IP address itself is not stored, and the same one has another hash for each account.
  const hash = ({ account, address }: SignInAddress): string =>
    createHmac('sha256', secret).update(`${account}\n${address}`).digest('base64url')

  return {
    /** Returns whether the account signed in from the address within 30 days; one query for known and unknown accounts. */
    async isKnown(from: SignInAddress): Promise<boolean> {
      return (await database.run(FIND, [hash(from), from.account])).length > 0
    },

    /** Records a sign-in. A known address is written again only after a day. */
    async remember(userId: string, from: SignInAddress): Promise<void> {
      const written = await database.run(REMEMBER, [hash(from), userId])
      if (written.length > 0) await database.run(DROP_OLDEST, [userId])
    },

    /** Deletes the addresses that are not known any more, in batches; several replicas may do it at the same time. */
    async prune(isWanted: () => boolean): Promise<void> {
      for (let count = PRUNE_BATCH_SIZE; count === PRUNE_BATCH_SIZE && isWanted(); ) {
        count = (await database.run(PRUNE)).length
      }
    },
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    signInAddresses: ReturnType<typeof createSignInAddresses>
  }
}

async function signInAddresses(app: FastifyInstance, { secret }: SignInAddressesOptions) {
  const created = createSignInAddresses(app.database, secret)
  app.decorate('signInAddresses', created)
  let isClosing = false
  const stop = repeat(() => created.prune(() => !isClosing), {
    first: MINUTE_MS,
    every: HOUR_MS,
    onFailure: (err) => app.log.warn({ err }, 'expired sign-in addresses could not be deleted'),
  })
  app.addHook('onClose', () => {
    isClosing = true
    return stop()
  })
}

export default fp(signInAddresses, { name: 'sign-in-addresses', dependencies: ['database'] })
