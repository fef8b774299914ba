/** Accounts in tests: users with passwords, and their password resets with the tokens of the mails. */
import type { Database } from '../../drizzle/client/index.ts'
import type { Client, Reply, TestApp } from './app.ts'
import { createClient } from './app.ts'
import { recordLinks } from './links.ts'

export const PASSWORD = 'a former long password'
export const NEW_PASSWORD = 'another long password'

let count = 0

export function createAccounts(app: TestApp) {
  const { admin, anybody, base, database } = app
  const links = recordLinks(app.app)
  const signIn = (email: string, password: string) =>
    anybody.post('/tokens', { grant_type: 'password', email, password })

  return {
    links,
    signIn,

    /** Creates a user with a password. */
    async create(fields: object = {}) {
      count += 1
      const body = { name: 'Ada', email: `ada.${count}@example.org`, password: PASSWORD, ...fields }
      const reply = await admin.post('/users', body)
      if (reply.status !== 201) throw new Error(reply.text)
      return { id: String(reply.body.data.id), email: body.email }
    },

    async createSession(email: string, password = PASSWORD): Promise<Client> {
      const { data } = (await signIn(email, password)).body
      return createClient(base, { authorization: `Bearer ${data.access_token}` })
    },

    /** Requests a reset. @returns its id, and the token in the mail */
    async request(email: string) {
      const reply = await anybody.post('/password-resets', { email })
      if (reply.status !== 201) throw new Error(reply.text)
      const link = links.at(-1)
      if (!link || link.id !== reply.body.data.id) throw new Error('No mail was enqueued')
      return link
    },

    complete: (id: string, token: string, fields: object = {}): Promise<Reply> =>
      anybody.patch(`/password-resets/${id}`, { token, password: NEW_PASSWORD, ...fields }),

    /** Forgets which mails were sent in the last hour. */
    resetQuotas: () => database.run('delete from mail_quotas'),
  }
}

/** Returns the links that were sent to an address. */
export const readLinkRows = (database: Database, email: string) =>
  database.run('select * from account_links where email = $1', [email])
