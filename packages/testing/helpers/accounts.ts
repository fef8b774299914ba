/** Accounts in tests: users with passwords, the mails to them, and their links with the tokens, which only the mails have. */
import type { Database } from '../../database/src/client/index.ts'
import type { NewMail } from '../../resources/src/definition/mailer.ts'
import { recordLinks } from '../src/links.ts'
import type { Client, Json, Reply, TestApp } from './app.ts'
import { createClient } from './app.ts'

export const PASSWORD = 'a former long password'
export const NEW_PASSWORD = 'another long password'
/** The settings of an app that sends no mails. */
export const WITHOUT_MAIL = { NODE_ENV: 'production', INSECURE_HTTP: 'true' }

let count = 0
export const newAddress = () => `ada.${++count}@example.org`

type Link = Pick<NonNullable<ReturnType<typeof recordLinks>[number]>, 'id' | 'token'>

/** Returns an array to which each mail is added when it is enqueued, also if it is not sent later. */
function recordMails({ mail }: TestApp['app']): NewMail[] {
  if (!mail) throw new Error('The app sends no mails')
  const mails: NewMail[] = []
  const { enqueue } = mail
  mail.enqueue = (connection, sent) => {
    mails.push(sent)
    return enqueue(connection, sent)
  }
  return mails
}

export function createAccounts(app: TestApp) {
  const { admin, anybody, base, database } = app
  const links = recordLinks(app.app)
  const mails = recordMails(app.app)
  const signIn = (email: string, password = PASSWORD) =>
    anybody.post('/tokens', { grant_type: 'password', email, password })

  /** Creates a user with a password. */
  const create = async (fields: object = {}) => {
    const body = { name: 'Ada', email: newAddress(), password: PASSWORD, ...fields }
    const reply = await admin.post('/users', body)
    if (reply.status !== 201) throw new Error(reply.text)
    return { id: String(reply.body.data.id), email: body.email }
  }

  const createSession = async (email: string, password = PASSWORD): Promise<Client> => {
    const { data } = (await signIn(email, password)).body
    return createClient(base, { authorization: `Bearer ${data.access_token}` })
  }

  /** Sends a request. @returns its reply, and the link in the mail that it enqueued */
  const takeLink = async (sent: Promise<Reply>) => {
    const before = links.length
    const reply = await sent
    const link = links[before]
    if (reply.status !== 201 || !link) throw new Error(`No mail was enqueued: ${reply.text}`)
    return { ...link, reply, data: reply.body.data }
  }

  return {
    links,
    mails,
    signIn,
    create,
    createSession,
    takeLink,

    /** Creates a user with a password who is signed in. */
    async createSignedIn(fields: object = {}) {
      const user = await create(fields)
      return { ...user, own: await createSession(user.email) }
    },

    unverify: (id: string) => database.run('update users set email_verified_at = null where id = $1', [id]),
    read: async (id: string): Promise<Json> => (await admin.get(`/users/${id}`)).body.data,

    /** Returns the templates of the mails to an address. */
    listMails: (address: string) =>
      mails.filter(({ recipient }) => recipient === address).map(({ template }) => template),

    /** Requests a reset. */
    request: (email: string) => takeLink(anybody.post('/password-resets', { email })),

    complete: ({ id, token }: Link, fields: object = {}): Promise<Reply> =>
      anybody.patch(`/password-resets/${id}`, { token, password: NEW_PASSWORD, ...fields }),

    verify: ({ id, token }: Link, version = 1): Promise<Reply> =>
      anybody.patch(`/v${version}/email-verifications/${id}`, { token }),
  }
}

/** Returns the links that were sent to an address. */
export const readLinkRows = (database: Database, email: string) =>
  database.run('select * from account_links where email = $1', [email])
