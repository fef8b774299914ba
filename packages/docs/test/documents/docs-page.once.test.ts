/**
 * The documentation page of the built server works in a real browser, with both versions and within its content
 * security policy, and so does the start page. Neither logs an error or a warning.
 */
import type { Page } from 'playwright-core'
import t from 'tap'
import { ADMIN_KEY, createClient } from '../../../testing/helpers/app.ts'
import {
  getSkipReason,
  openBrowser,
  openWatchedPage,
  readAccessibilityFaults,
} from '../../../testing/helpers/browser.ts'
import type { Owner } from '../../../testing/helpers/database.ts'
import { createServerSettings, startServer } from '../../../testing/helpers/process.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'

const PASSWORD = 'nine brass cogs, turning'

/** The tests expect responses with 401. */
const isUnexpected = (complaint: string) => !complaint.includes('the server responded with a status of 401')

const findForeign = (urls: readonly string[], base: string) =>
  urls.filter((url) => !url.startsWith(`${base}/`) && !/^(?:data|about):/.test(url))

const PRODUCTS = '/api/v1/products'

/** Starts the built server, as `npm start` does, and returns its address. */
async function start(t: Owner): Promise<string> {
  const settings = { ...(await createServerSettings(t)), ADMIN_API_KEY: ADMIN_KEY, HOST: '127.0.0.1' }
  return (await startServer(t, settings)).url
}

/** Loads the page at a section. */
async function openSection(page: Page, base: string, section: string) {
  // The page reads the fragment when it starts.
  await page.goto('about:blank')
  await page.goto(`${base}/docs/#${section}`)
}

/** Goes to a section of the open page. A load takes ten times the CPU. */
const goToSection = (page: Page, section: string) => page.evaluate(`location.hash = '#${section}'`)

/** Sends the request for products from the page. Returns the response and the headers that were sent. */
async function sendFromPage(page: Page) {
  await page
    .getByRole('button', { name: /Test Request.*get \/api\/v1\/products\)/ })
    .first()
    .click()
  const client = page.getByRole('dialog', { name: 'API Client' })
  const answered = page.waitForResponse((response) => new URL(response.url()).pathname === PRODUCTS)
  await client.getByRole('button', { name: /^Send get request/ }).click()
  const response = await answered
  await client.getByText(`${response.status()} ${response.statusText()}`).waitFor()
  const text = await response.text()
  await client
    .getByText(text.includes('TEA-BROWSER') ? 'TEA-BROWSER' : 'UNAUTHORIZED')
    .first()
    .waitFor()
  await page.getByRole('button', { name: 'Close Client' }).click()
  return { status: response.status(), headers: await response.request().allHeaders() }
}

/** Fills in the form to sign in. */
async function signIn(page: Page, method: string, fields: Record<string, string>) {
  const open = page.getByRole('button', { name: 'Sign in' })
  const dialog = page.getByRole('dialog', { name: 'Sign in' })
  if (!(await dialog.isVisible())) await open.click()
  await dialog.getByRole('radio', { name: method }).check()
  for (const [label, value] of Object.entries(fields)) {
    await dialog.getByLabel(label, { exact: true }).and(dialog.locator('input:not([type=radio])')).fill(value)
  }
  await dialog.getByRole('button', { name: 'Sign in' }).click()
  return dialog
}

t.test('the documentation page in a real browser', { skip: getSkipReason() }, async (t) => {
  const base = await start(t)
  const admin = createClient(base, { 'X-API-Key': ADMIN_KEY })
  const email = 'ada@example.com'
  await admin.post('/api/v1/users', { name: 'Ada', email, password: PASSWORD })
  await admin.post(PRODUCTS, { sku: 'TEA-BROWSER', name: 'Tea', price_amount: 1999, status: 'active' })
  const countSessions = async () => (await admin.get('/api/v1/sessions')).body.data.length
  const browser = await openBrowser(t)
  const { page, requests, complaints } = await openWatchedPage(browser, base)
  page.setDefaultTimeout(60_000)
  const awaitTheme = (name: string) => page.locator(`body.${name}-mode`).waitFor()
  const readStorage = async () => String(await page.evaluate('JSON.stringify(sessionStorage)'))
  const readWidth = () => page.evaluate('document.documentElement.scrollWidth')

  await t.test('has a title, a description, a language, an icon and the sections of the guide', async (t) => {
    await page.goto(`${base}/docs`)
    t.equal(await page.title(), 'resource-api: API reference')
    t.equal(await page.locator('html').getAttribute('lang'), 'en')
    t.match(await page.locator('meta[name=description]').getAttribute('content'), /pagination, filtering/)
    t.match(await page.locator('link[rel=icon]').getAttribute('href'), /^data:image\/svg\+xml/)
    t.ok(await page.evaluate('document.querySelector(".brand img").naturalWidth > 0'), 'and a logo')
    // The sections of the guide are first, and no operations are listed.
    await page.getByRole('heading', { name: 'Getting an API key' }).waitFor()
    const entries = await page.getByRole('complementary').first().getByRole('listitem').allInnerTexts()
    t.match(entries, [/^Introduction/, /^Getting an API key/])
    t.notOk(entries.some((entry) => entry.startsWith('List users')))
  })

  await t.test('has samples of each language, with the address under which it was opened', async (t) => {
    const other = base.replace('127.0.0.1', 'localhost')
    const opened = await openWatchedPage(browser, other)
    await openSection(opened.page, other, 'v1/tag/users/GET/api/v1/users')
    await opened.page.getByText(`curl "${other}/api/v1/users?status=active`).first().waitFor()
    await opened.page.getByRole('button', { name: 'curl' }).first().click()
    const options = await opened.page.getByRole('option').allInnerTexts()
    t.same(options, ['curl', 'Export', 'TypeScript', 'Python'])
    await opened.page.getByRole('option', { name: 'TypeScript' }).click()
    await opened.page.getByText(`baseUrl: "${other}"`).first().waitFor()
    t.same(opened.complaints, [])
    await opened.page.close()
  })

  await t.test('shows both versions and switches between them', async () => {
    await page.getByRole('heading', { name: 'resource-api' }).waitFor()
    await page.getByText('error.details').first().waitFor()
    for (const name of [/^User profiles/, /^API keys/])
      await page.getByRole('button', { name }).first().waitFor()
    await page.getByRole('button', { name: 'Version 1' }).click()
    await page.getByRole('option', { name: 'Version 2' }).click()
    await page.getByText('error.errors').first().waitFor()
  })

  await t.test('offers the collections', async (t) => {
    for (const name of ['Postman', 'Bruno']) {
      const link = page.getByRole('link', { name: `${name} collection` }).first()
      const started = page.waitForEvent('download')
      await link.click()
      t.equal((await started).suggestedFilename(), `resource-api-v2.${name.toLowerCase()}.json`)
    }
  })

  await t.test('has the theme of the system until the reader chooses one, and keeps the choice', async () => {
    for (const theme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme: theme })
      await awaitTheme(theme)
    }
    await page.getByRole('button', { name: 'Dark theme' }).click()
    await awaitTheme('dark')
    await openSection(page, base, 'rate_limit_exceeded')
    await awaitTheme('dark')
    await page.getByRole('button', { name: 'Dark theme', pressed: true }).click()
    await awaitTheme('light')
  })

  await t.test('opens at the entry of an error code', async () => {
    await page.getByRole('heading', { name: 'RATE_LIMIT_EXCEEDED' }).first().waitFor()
    // Below the header of the page.
    // Playwright repeats such a test only with eval, which the page's policy forbids.
    await waitUntil(async () =>
      Boolean(
        await page.evaluate(`(() => {
          const headings = [...document.querySelectorAll('h3')]
          const { top } = headings.find((h3) => h3.textContent.includes('RATE_LIMIT_EXCEEDED')).getBoundingClientRect()
          return top > 52 && top < 300
        })()`),
      ),
    )
    // The same in a page that is open already.
    await page.evaluate("location.hash = '#forbidden'")
    await page.waitForURL(/\/description\/forbidden$/)
    await page.getByRole('heading', { name: 'FORBIDDEN' }).first().waitFor()
  })

  await t.test('has a search that finds the codes of errors and of fields', async () => {
    await page.keyboard.press('Control+k')
    const search = page.getByRole('combobox', { name: 'Enter search query' })
    for (const code of ['IDEMPOTENCY_KEY_REUSED', 'TOO_SHORT']) {
      await search.fill(code)
      await page.getByRole('option', { name: code }).first().waitFor()
    }
    await page.getByRole('option', { name: 'TOO_SHORT' }).first().click()
    await page.waitForURL(/description\/too_short/)
  })

  await t.test('has the rules of roles, events and webhooks, and shared parameters', async () => {
    await goToSection(page, 'v1/description/permissions')
    await page.getByRole('cell', { name: 'user-profiles' }).first().waitFor()
    await goToSection(page, 'v1/description/events-and-webhooks')
    await page.getByText('curl -N').first().waitFor()
    await goToSection(page, 'v1/tag/webhook-endpoints')
    await page.getByRole('heading', { name: 'A change in webhook endpoints' }).first().waitFor()
    const section = 'v1/tag/deliveries/POST/api/v1/webhook-endpoints/{endpoint_id}/deliveries'
    await goToSection(page, section)
    await page.locator(`[id="${section}"]`).getByText('The id of the resource').first().waitFor()
  })

  await t.test('shows why a sign-in fails', async (t) => {
    const dialog = await signIn(page, 'E-mail and password', { 'E-mail': email, Password: 'wrong' })
    await dialog.getByRole('alert').getByText('Invalid e-mail address or password.').waitFor()
    await signIn(page, 'API key', { 'API key': 'no-key' })
    await dialog.getByRole('alert').getByText('Invalid or expired API key.').waitFor()
    await signIn(page, 'Access token', { 'Access token': 'ü' })
    await dialog.getByRole('alert').getByText('visible ASCII').waitFor()
    t.same(await readAccessibilityFaults(page, '#sign-in'), [])
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    t.equal(await readStorage(), '{}')
  })

  await t.test('signs a user in, and sends operations with the token only', async (t) => {
    await goToSection(page, `v1/tag/products/GET${PRODUCTS}`)
    await page.getByText(`curl "${base}/api/v1/products?status=active`).first().waitFor()
    await signIn(page, 'E-mail and password', { 'E-mail': email, Password: PASSWORD })
    await page.getByRole('status').getByText(email).waitFor()
    t.notOk((await readStorage()).includes(PASSWORD), 'the password is not kept')
    const { status, headers } = await sendFromPage(page)
    t.equal(status, 200)
    t.match(headers.authorization, /^Bearer /)
    t.notOk('x-api-key' in headers, 'and no API key')
  })

  await t.test('refreshes a token that is about to end, and signs out, which ends the session', async (t) => {
    const before = await page.evaluate(`(() => {
      const [name] = Object.keys(sessionStorage)
      const credential = JSON.parse(sessionStorage.getItem(name))
      sessionStorage.setItem(name, JSON.stringify({ ...credential, expiresAt: Date.now() }))
      return credential.value
    })()`)
    const refreshed = await sendFromPage(page)
    t.equal(refreshed.status, 200)
    t.match(refreshed.headers.authorization, /^Bearer /)
    t.not(refreshed.headers.authorization, `Bearer ${before}`)
    t.equal(await countSessions(), 1)
    const ended = page.waitForResponse((response) => response.request().method() === 'DELETE')
    await page.getByRole('button', { name: 'Sign out' }).click()
    t.equal((await ended).status(), 204)
    t.equal(await countSessions(), 0)
    const { status, headers } = await sendFromPage(page)
    t.equal(status, 401)
    t.notOk('authorization' in headers)
  })

  await t.test('sends operations with an API key', async (t) => {
    await signIn(page, 'API key', { 'API key': ADMIN_KEY })
    await page.getByText('API key test-admin').waitFor()
    const { status, headers } = await sendFromPage(page)
    t.equal(status, 200)
    t.equal(headers['x-api-key'], ADMIN_KEY)
    t.notOk('authorization' in headers, 'and no token')
  })

  await t.test('needs no horizontal scrolling at a width of 390 pixels', async (t) => {
    await page.setViewportSize({ width: 390, height: 844 })
    await goToSection(page, 'v1/tag/webhook-endpoints/POST/api/v1/webhook-endpoints')
    await page.getByText('The types of events to send').first().waitFor()
    t.equal(await readWidth(), 390)
    await goToSection(page, 'v1/description/errors')
    await page.getByText('Every error has the form').first().waitFor()
    t.equal(await readWidth(), 390)
    for (const theme of ['dark', 'light']) {
      await page.getByRole('button', { name: 'Dark theme' }).click()
      await awaitTheme(theme)
      t.same(await readAccessibilityFaults(page, '.bar'), [])
    }
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('button', { name: 'Sign in' }).click()
    t.equal(await readWidth(), 390)
    await page.getByRole('button', { name: 'Cancel' }).click()
  })

  await t.test('requests no other host and does not violate its content security policy', async (t) => {
    const links = await page.locator('a[href^="http"]:visible').evaluateAll((found) => found.map(String))
    t.same(findForeign(links, base), [])
    t.same(findForeign(requests, base), [])
    t.same(complaints.filter(isUnexpected), [])
  })
})

t.test('the start page in a real browser', { skip: getSkipReason() }, async (t) => {
  const base = await start(t)
  const browser = await openBrowser(t)
  const { page, requests, complaints } = await openWatchedPage(browser, base)
  const readBackground = () => page.evaluate('getComputedStyle(document.body).backgroundColor')

  await page.goto(base)
  t.equal(await page.title(), 'resource-api')
  for (const [colorScheme, background] of [
    ['light', 'rgb(246, 247, 249)'],
    ['dark', 'rgb(18, 21, 27)'],
  ] as const) {
    await page.emulateMedia({ colorScheme })
    t.equal(await readBackground(), background)
    for (const width of [1440, 390]) {
      await page.setViewportSize({ width, height: 800 })
      t.same(await readAccessibilityFaults(page, 'html'), [])
      const needed = await page.evaluate<number>('document.documentElement.scrollWidth')
      t.ok(needed <= width, `${needed} of ${width} pixels`)
    }
  }
  await page.getByRole('link', { name: 'Documentation' }).click()
  // The start page has a heading of the same name.
  await page.waitForURL(/\/docs\//)
  await page.getByRole('button', { name: 'Version 1' }).waitFor()
  t.same(findForeign(requests, base), [])
  t.same(complaints.filter(isUnexpected), [])
})
