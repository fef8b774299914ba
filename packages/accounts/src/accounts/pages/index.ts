/**
 * Serves small pages on which people reset a password, accept an invitation and verify an address: for teams without pages
 * of their own. They are plain forms without scripts. GET changes nothing, so that a program that opens the links of mails
 * uses none up.
 */
import type { FastifyHelmetRouteOptions } from '@fastify/helmet'
import { identity } from '@resource-api/database'
import { apiError, invalidBody, type Violation } from '@resource-api/http'
import type { Config } from '@resource-api/http/config'
import { ApiError, compileValue, prepareFailure } from '@resource-api/http/internal'
import { toBodySchema } from '@resource-api/resources/internal'
import type { Static, TObject } from '@sinclair/typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { PasswordResetComplete, PasswordResetCreate } from '../../schemas/password-resets.ts'
import { checkOrigin } from './check-origin.ts'
import { createPageRenderer, type Page, readStyles } from './render-page.ts'

const BASE = '/account'
/** Bytes, as of other bodies without credentials. */
const FORM_LIMIT = 16_384
/** Characters. One of a link has 43. */
const MAX_TOKEN_LENGTH = 128
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

type Fields = Readonly<Record<string, string | undefined>>

/** The policy of the pages, where it differs from that of the API. */
const policy: FastifyHelmetRouteOptions = {
  helmet: {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'none'"],
        styleSrc: ["'self'"],
        formAction: ["'self'"],
        baseUri: ["'none'"],
        frameAncestors: ["'none'"],
      },
    },
    // The address of a page has a token.
    referrerPolicy: { policy: 'no-referrer' },
  },
}

const INCOMPLETE_LINK: Page = {
  title: 'This link is incomplete',
  problem: 'Open the whole link, as it is in the email.',
}

const hide = ({ id = '', token = '' }: Fields) => [
  { name: 'id', value: id },
  { name: 'token', value: token },
]

const findProblem = (violations: readonly Violation[], name: string): string | undefined => {
  const found = violations.find(({ field }) => field === name)
  // The API has the words of Ajv.
  const message = found?.message.replace('must NOT have fewer than', 'must have at least')
  return message && `The ${name === 'email' ? 'address' : name} ${message}.`
}

/** Compiles a schema into a function that returns the fields of a form. */
function createReader<S extends TObject>(schema: S): (sent: Record<string, unknown>) => Static<S> {
  const validate = compileValue(toBodySchema(schema, 'create'))
  return (sent) => {
    const { value, violations } = validate(sent)
    if (violations.length > 0) throw invalidBody([...violations])
    // Validated by the schema.
    return value as Static<S>
  }
}

const UNWANTED = 'If you did not ask for this, close the page.'

const toLink = ({ id = '', token = '' }: Fields) => ({ id, token })

const hasLink = ({ id, token }: Fields): boolean => Boolean(id && token)

/** A page with a form, and what its form does. */
interface AccountPage {
  /**
   * The form; with what is wrong with the fields that were sent.
   * @throws ApiError 403 if the link cannot be used
   */
  show(sent: Fields, violations: readonly Violation[]): Promise<Page>
  /** @returns the page after it. @throws ApiError */
  send(sent: Fields, request: FastifyRequest, reply: FastifyReply): Promise<Page>
}

const CONTINUE = { href: '../', text: `Continue to ${identity.title}` }
const REQUEST_LINK = { href: 'reset', text: 'Request a new link' }

const VOID_LINK: Page = {
  title: 'This link no longer works',
  problem: 'It has expired or was already used, or the account has changed since the email was sent.',
}

/** The address may be verified: a link is deleted when it is used. */
const VOID_VERIFICATION: Page = {
  ...VOID_LINK,
  text: 'If you have opened it before, your address is verified, and there is nothing left to do. Otherwise, sign in and request a new link.',
  next: CONTINUE,
}

function createPages(accounts: NonNullable<FastifyInstance['accounts']>): Record<string, AccountPage> {
  const readRequest = createReader(PasswordResetCreate)
  const readCompletion = createReader(PasswordResetComplete)

  const requestPage: AccountPage = {
    show: async ({ email = '' }, violations) => ({
      title: 'Reset your password',
      text: 'We will email you a link with which you choose a new password.',
      form: {
        hidden: [],
        email: { value: email, problem: findProblem(violations, 'email') },
        button: 'Send the link',
      },
    }),
    async send({ email }) {
      await accounts.requestReset(readRequest({ email }).email)
      return {
        title: 'Check your email',
        text: 'If there is an account with this address, we have sent it a link, which works for 30 minutes. If you find no email, look into the spam folder.',
      }
    },
  }

  const createPasswordPage = (title: string, done: string, revoke: boolean): AccountPage => ({
    async show(sent, violations) {
      const { email } = await accounts.findReset(toLink(sent))
      return {
        title,
        text: `For the account of ${email} at ${identity.title}.`,
        form: {
          hidden: hide(sent),
          password: { username: email, problem: findProblem(violations, 'password') },
          revoke: revoke && { isChecked: sent.revoke_api_keys === 'true' },
          button: 'Save the password',
        },
      }
    },
    async send({ id = '', token, password, revoke_api_keys }, request, reply) {
      const fields = readCompletion({
        token,
        password,
        ...(revoke_api_keys === 'true' && { revoke_api_keys: true }),
      })
      await accounts.completeReset(request, reply, { ...fields, id })
      return { title: done, text: 'You can now sign in with your new password.', next: CONTINUE }
    },
  })

  const verifyPage: AccountPage = {
    async show(sent, violations) {
      const { email, isNew } = await accounts.findVerification(toLink(sent))
      const common = {
        problem: findProblem(violations, 'email'),
        form: { hidden: hide(sent), button: isNew ? 'Change the address' : 'Verify' },
      }
      if (!isNew) {
        const text = `Confirm that you receive email at ${email}, the address of your account at ${identity.title}.`
        return { ...common, title: 'Verify your email address', text: `${text} ${UNWANTED}` }
      }
      const text = `Make ${email} the address of the account at ${identity.title} in which it was entered. It replaces the present address, and all sessions of the account end.`
      return { ...common, title: 'Confirm your new email address', text: `${text} ${UNWANTED}` }
    },
    async send(sent, request, reply) {
      const { email } = await accounts.completeVerification({ request, reply }, toLink(sent))
      const text = `${email} is the address of your account at ${identity.title}.`
      return { title: 'Your address is verified', text, next: CONTINUE }
    },
  }

  const reset = createPasswordPage('Choose a new password', 'Your password is set', true)
  return {
    reset: {
      show: (sent, violations) => (hasLink(sent) ? reset : requestPage).show(sent, violations),
      send: (sent, request, reply) =>
        (sent.token === undefined ? requestPage : reset).send(sent, request, reply),
    },
    invite: createPasswordPage('Choose your password', 'Welcome', false),
    verify: verifyPage,
  }
}

/** @throws ApiError 403 if the fields cannot be those of a link, as for a link that does not exist */
function checkLink({ id, token }: Fields, name: string): void {
  if (name === 'reset' && id === undefined && token === undefined) return
  if (!UUID.test(id ?? '') || !token || token.length > MAX_TOKEN_LENGTH) throw apiError('FORBIDDEN')
}

const toFields = (sent: unknown): Fields => Object.fromEntries(new URLSearchParams(String(sent ?? '')))

/** Without mail, or with pages of the team (APP_URL), there are none. The scope has @fastify/helmet. */
export async function accountPages(
  app: FastifyInstance,
  { APP_URL, PUBLIC_URL }: Pick<Config, 'APP_URL' | 'PUBLIC_URL'>,
) {
  const { accounts, concurrency, limits } = app
  if (!accounts || APP_URL !== undefined) return
  const render = createPageRenderer()
  const styles = readStyles()

  await app.register(
    async (scope) => {
      scope.removeAllContentTypeParsers()
      scope.addContentTypeParser(
        'application/x-www-form-urlencoded',
        { parseAs: 'string', bodyLimit: FORM_LIMIT },
        (_request, body, done) => done(null, body),
      )

      const sendPage = (reply: FastifyReply, page: Page, name: string) =>
        reply.header('cache-control', 'no-store').type('text/html; charset=utf-8').send(render(page, name))

      scope.setErrorHandler((error, request, reply) => {
        const { headers, message } = prepareFailure(error, request, reply)
        const wait = headers['Retry-After']
        const problem = wait === undefined ? `${message}.` : `${message}. Try again in ${wait} seconds.`
        return sendPage(reply, { title: 'That did not work', problem }, 'reset')
      })

      scope.get('/account.css', { ...policy, config: { access: 'public' } }, (_request, reply) =>
        reply.header('cache-control', 'max-age=3600').type('text/css; charset=utf-8').send(styles),
      )
      // Relative: a proxy can add a path prefix.
      scope.get('/', { ...policy, config: { access: 'public' } }, (request, reply) =>
        reply.redirect(request.url.split('?', 1)[0]?.endsWith('/') ? 'reset' : `${BASE.slice(1)}/reset`),
      )
      for (const [name, page] of Object.entries(createPages(accounts))) {
        const options = {
          ...policy,
          config: { access: 'public' },
          onRequest: (request: FastifyRequest) => limits.countAnonymous(request),
        } as const
        const sendVoid = (reply: FastifyReply) =>
          sendPage(
            reply.code(403),
            name === 'verify' ? VOID_VERIFICATION : { ...VOID_LINK, next: REQUEST_LINK },
            name,
          )
        scope.get(`/${name}`, options, async (request, reply) => {
          const { searchParams } = new URL(request.url, 'http://localhost')
          const sent = Object.fromEntries(searchParams)
          if (name !== 'reset' && !hasLink(sent)) return sendPage(reply.code(400), INCOMPLETE_LINK, name)
          try {
            checkLink(sent, name)
            return await sendPage(reply, await page.show(sent, []), name)
          } catch (error) {
            if (error instanceof ApiError && error.status === 403) return sendVoid(reply)
            throw error
          }
        })
        const handle = async (request: FastifyRequest, reply: FastifyReply) => {
          checkOrigin(app, request, PUBLIC_URL)
          const sent = toFields(request.body)
          try {
            checkLink(sent, name)
            const content = await page.send(sent, request, reply)
            // The hook that clears them for the routes of the API does not run for pages.
            if (request.mayChangeCredentials) app.credentials.clearCaches()
            return await sendPage(reply, content, name)
          } catch (error) {
            if (!(error instanceof ApiError)) throw error
            const { status, violations } = error
            if (status === 403) return sendVoid(reply)
            const shown = violations.filter(({ field }) => field === 'email' || field === 'password')
            if (shown.length === 0) throw error
            return sendPage(reply.code(status), await page.show(sent, violations), name)
          }
        }
        scope.post(`/${name}`, options, async (request, reply) => {
          const slot = concurrency.hold(request, reply)
          try {
            return await handle(request, reply)
          } finally {
            if (slot) concurrency.release(slot)
          }
        })
      }
    },
    { prefix: BASE },
  )
}
