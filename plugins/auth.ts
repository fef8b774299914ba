/** Credentials to `request.actor`: who calls, or 401. */
import { timingSafeEqual } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Actor, Role } from './access.ts'
import type { Database } from './database/index.ts'
import { apiError } from './errors.ts'
import { hashKey, isKey } from './keys.ts'

export interface AuthOptions {
  /** The bootstrap admin's key, while it is set. */
  adminKey: string | undefined
  /** Whose key that is. */
  adminEmail: string
}

const EVERYTHING: ReadonlySet<string> = new Set(['*'])

const challenge = (message: string, error?: string) =>
  apiError('UNAUTHORIZED', {
    message,
    headers: { 'WWW-Authenticate': `Bearer realm="resource-api"${error ? `, error="${error}"` : ''}` },
  })

const missing = () => challenge('Authentication required')
const badToken = () => challenge('Invalid or expired token', 'invalid_token')
const badKey = () => challenge('Invalid or expired API key', 'invalid_token')

// The bootstrap key is that of the admin with ADMIN_EMAIL; where none has it any more, of the first one made.
const ADMIN = `select id, status from users where role = 'admin'
  order by (email = $1) desc, created_at, id limit 1`

const OWNER_OF_KEY = `select u.id, u.role, k.scopes from api_keys k join users u on u.id = k.user_id
  where k.key_hash = $1 and k.expires_at > now() and u.status = 'active'`

const isRole = (value: unknown): value is Role =>
  value === 'admin' || value === 'manager' || value === 'member'

/** Says who a key belongs to. */
function createKeyReader(database: Database, { adminKey, adminEmail }: AuthOptions) {
  const adminHash = adminKey === undefined ? undefined : Buffer.from(hashKey(adminKey))

  return async (key: string): Promise<Actor> => {
    const hash = hashKey(key)
    if (adminHash && timingSafeEqual(adminHash, Buffer.from(hash))) {
      const [admin] = await database.run(ADMIN, [adminEmail.toLowerCase()])
      if (admin?.status !== 'active') throw badKey()
      return { userId: String(admin.id), role: 'admin', scopes: EVERYTHING, credential: 'bootstrap_key' }
    }
    if (!isKey(key)) throw badKey()
    const [owner] = await database.run(OWNER_OF_KEY, [hash])
    if (!owner || !isRole(owner.role) || !Array.isArray(owner.scopes)) throw badKey()
    return {
      userId: String(owner.id),
      role: owner.role,
      scopes: new Set(owner.scopes.map(String)),
      credential: 'api_key',
    }
  }
}

async function auth(app: FastifyInstance, options: AuthOptions) {
  const ofKey = createKeyReader(app.database, options)

  const authenticate = async (request: FastifyRequest): Promise<Actor> => {
    const { authorization, 'x-api-key': key } = request.headers
    if (authorization !== undefined && key !== undefined) {
      throw apiError('INVALID_REQUEST', { message: 'Send either Authorization or X-API-Key, not both' })
    }
    if (typeof key === 'string' && key !== '') return ofKey(key)
    if (authorization !== undefined && /^bearer /i.test(authorization)) throw badToken()
    throw missing()
  }

  app.decorateRequest('actor', null)
  app.addHook('onRequest', async (request) => {
    const { access } = request.routeOptions.config
    if (access !== undefined && access !== 'public') request.actor = await authenticate(request)
  })
}

export default fp(auth, { name: 'auth', dependencies: ['errors', 'database'] })
