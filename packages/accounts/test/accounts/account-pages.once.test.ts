/** The pages under `/account` of the built server work in a real browser: a forgotten password from the mail to the sign-in. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Page } from 'playwright-core'
import t from 'tap'
import { ADMIN_KEY, createClient } from '../../../testing/helpers/app.ts'
import {
  getSkipReason,
  openBrowser,
  openWatchedPage,
  readAccessibilityFaults,
} from '../../../testing/helpers/browser.ts'
import { testFolder } from '../../../testing/helpers/database.ts'
import { createServerSettings, startServer } from '../../../testing/helpers/process.ts'

const PASSWORD = 'nine brass cogs, turning'
const EMAIL = 'ada@example.com'

/** Where screenshots are written, for a person who looks at them. */
const { SCREENSHOTS } = process.env

/** The tests expect responses with these statuses. */
const isUnexpected = (complaint: string) =>
  !/the server responded with a status of (?:403|422)/.test(complaint)

const readFaults = async (page: Page, name: string) => {
  const faults: string[] = []
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    for (const width of [1400, 390]) {
      await page.setViewportSize({ width, height: 800 })
      const needed = await page.evaluate<number>('document.documentElement.scrollWidth')
      if (needed > width) faults.push(`${name} is ${needed} pixels wide at ${width}`)
      faults.push(...(await readAccessibilityFaults(page, 'main')))
      if (SCREENSHOTS)
        await page.screenshot({ path: join(SCREENSHOTS, `${name}-${colorScheme}-${width}.png`) })
    }
  }
  return faults
}

t.test('the pages of accounts in a real browser', { skip: getSkipReason() }, async (t) => {
  const DATA_DIR = testFolder(t)
  const own = { ADMIN_API_KEY: ADMIN_KEY, HOST: '127.0.0.1', DATA_DIR }
  const settings = { ...(await createServerSettings(t)), ...own }
  const folder = join(DATA_DIR, 'mail')
  const { url: base } = await startServer(t, settings)
  const admin = createClient(base, { 'X-API-Key': ADMIN_KEY })
  const signIn = (password: string) =>
    createClient(base, {}).post('/api/v1/tokens', { grant_type: 'password', email: EMAIL, password })

  /** Returns the link in the mail with a purpose, when it is there. */
  const awaitLink = async (purpose: string, former?: string): Promise<string> => {
    for (;;) {
      const links = listMails().flatMap(
        (text) => new RegExp(`${base}/account/${purpose}\\?[^\\s"<]+`).exec(text)?.[0] ?? [],
      )
      const link = links.find((each) => each !== former)
      if (link !== undefined) return link
      await wait(20)
    }
  }
  const listMails = () => {
    try {
      return (
        readdirSync(folder)
          .filter((name) => name.endsWith('.eml'))
          // Quoted-printable lines end with `=`.
          .map((name) =>
            readFileSync(join(folder, name), 'utf8').replaceAll('=\r\n', '').replaceAll('=3D', '='),
          )
      )
    } catch {
      return []
    }
  }

  const browser = await openBrowser(t)
  const { page, requests, complaints } = await openWatchedPage(browser, base)
  const title = () => page.locator('h1').innerText()

  await t.test('an invitation leads to a password', async (t) => {
    await admin.post('/api/v1/users', { name: 'Ada', email: EMAIL })
    await page.goto(await awaitLink('invite'))
    t.equal(await title(), 'Choose your password')
    t.same(await readFaults(page, 'invite'), [])
    await page.getByLabel('New password').fill(PASSWORD)
    await page.getByRole('button').click()
    await page.getByRole('heading', { name: 'Welcome' }).waitFor()
    t.equal((await signIn(PASSWORD)).status, 201)
  })

  await t.test('a forgotten password is reset, from the request to the sign-in', async (t) => {
    await page.goto(`${base}/account/reset`)
    t.equal(await title(), 'Reset your password')
    t.same(await readFaults(page, 'request'), [])
    await page.getByLabel('Email address').fill(EMAIL)
    await page.getByRole('button').click()
    await page.getByRole('heading', { name: 'Check your email' }).waitFor()
    t.same(await readFaults(page, 'requested'), [])

    const link = await awaitLink('reset')
    await page.goto(link)
    t.same(await readFaults(page, 'reset'), [])
    // Only the server knows that this is refused.
    await page.getByLabel('New password').fill(EMAIL)
    await page.getByRole('checkbox').check()
    await page.getByRole('button').click()
    await page.locator('#password[aria-invalid]').waitFor()
    t.equal(await title(), 'Choose a new password')
    t.ok(await page.getByRole('checkbox').isChecked())
    t.same(await readFaults(page, 'refused'), [])
    t.notMatch(page.url(), 'token', 'the token is only in the form now')
    await page.getByLabel('New password').fill('twelve tin cogs, turning')
    await page.getByRole('button').click()
    await page.getByRole('heading', { name: 'Your password is set' }).waitFor()
    t.same(await readFaults(page, 'done'), [])
    t.equal((await signIn(PASSWORD)).status, 401)
    t.equal((await signIn('twelve tin cogs, turning')).status, 201)

    await page.goto(link)
    await page.getByRole('heading', { name: 'This link no longer works' }).waitFor()
    t.same(await readFaults(page, 'void'), [])
    await page.getByRole('link', { name: 'Request a new link' }).click()
    t.equal(await title(), 'Reset your password')
  })

  await t.test('an address is verified', async (t) => {
    const { access_token } = (await signIn('twelve tin cogs, turning')).body.data
    const own = createClient(base, { authorization: `Bearer ${access_token}` })
    t.equal((await own.post('/api/v1/email-verifications', {})).status, 201)
    const link = await awaitLink('verify')
    await page.goto(link)
    t.same(await readFaults(page, 'verify'), [])
    await page.getByRole('button', { name: 'Verify' }).click()
    await page.getByRole('heading', { name: 'Your address is verified' }).waitFor()
    t.same(await readFaults(page, 'verified'), [])

    const wanted = { email: 'ada.king@example.com', current_password: 'twelve tin cogs, turning' }
    t.equal((await own.post('/api/v1/email-verifications', wanted)).status, 201)
    await page.goto(await awaitLink('verify', link))
    t.same(await readFaults(page, 'change'), [])
    await page.getByRole('button', { name: 'Change the address' }).click()
    await page.getByRole('heading', { name: 'Your address is verified' }).waitFor()
    t.match(await page.locator('main').innerText(), wanted.email)
  })

  t.same(
    requests.filter((url) => !url.startsWith(`${base}/`) && !/^(?:data|about):/.test(url)),
    [],
    'no request to another host',
  )
  t.same(complaints.filter(isUnexpected), [])
})
