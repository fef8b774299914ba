/**
 * The documentation page of the built server works in a real browser, with both versions and within its content
 * security policy, and so does the start page. Neither logs an error or a warning.
 */
import { execFile } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Page } from 'playwright-core'
import t from 'tap'
import { ADMIN_KEY, createClient } from '../../../testing/helpers/app.ts'
import {
  getSkipReason,
  openBrowser,
  openWatchedPage,
  readAccessibilityFaults,
} from '../../../testing/helpers/browser.ts'
import { type Owner, testFolder } from '../../../testing/helpers/database.ts'
import { createServerSettings, startServer } from '../../../testing/helpers/process.ts'

const run = promisify(execFile)

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

/** Enters a credential on the first screen, not in the request window. */
const enterCredential = (page: Page, value: string) =>
  page.locator('.introduction-card').getByPlaceholder('Your credential').fill(value)

/** Returns the sample of an operation in the language that the page shows. */
const readSample = (page: Page, section: string): Promise<string> =>
  page.locator(`[id="${section}"] .scalar-card pre`).first().innerText()

/** Chooses the language of the sample of an operation. */
async function chooseLanguage(page: Page, section: string, from: RegExp, to: string) {
  await page.locator(`[id="${section}"]`).getByRole('button', { name: from }).first().click()
  await page.getByRole('option', { name: to }).click()
}

const LIST = `v1/tag/products/GET${PRODUCTS}`
const CREATE = `v1/tag/products/POST${PRODUCTS}`

t.test('the documentation page in a real browser', { skip: getSkipReason() }, async (t) => {
  const base = await start(t)
  const admin = createClient(base, { 'X-API-Key': ADMIN_KEY })
  const email = 'ada@example.com'
  await admin.post('/api/v1/users', { name: 'Ada', email, password: PASSWORD })
  await admin.post(PRODUCTS, { sku: 'TEA-BROWSER', name: 'Tea', price_amount: 1999, status: 'active' })
  const browser = await openBrowser(t)
  const { page, requests, complaints } = await openWatchedPage(browser, base)
  page.setDefaultTimeout(60_000)
  const readWidth = () => page.evaluate('document.documentElement.scrollWidth')
  const readStorage = async () =>
    String(await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])'))

  await t.test('has a title, a description, a language, an icon and groups of resources', async (t) => {
    await page.goto(`${base}/docs`)
    t.equal(await page.title(), 'resource-api: API reference')
    t.equal(await page.locator('html').getAttribute('lang'), 'en')
    t.match(await page.locator('meta[name=description]').getAttribute('content'), /pagination, filtering/)
    t.match(await page.locator('link[rel=icon]').getAttribute('href'), /^data:image\/svg\+xml/)
    await page.getByRole('heading', { name: 'Getting an API key' }).waitFor()
    const sidebar = page.getByRole('complementary').first()
    const entries = await sidebar.getByRole('listitem').allInnerTexts()
    t.match(entries[0], /^Introduction/)
    t.match(entries[1], /^Resources/)
    for (const name of ['Orders', 'API keys', 'Webhook endpoints', 'Health'])
      t.ok(await sidebar.getByRole('button', { name }).first().isVisible(), name)
    t.notOk(entries.some((entry) => entry.startsWith('List users')))
    t.notOk(entries.some((entry) => entry.startsWith('Models')))
  })

  await t.test('shows both versions and switches between them', async (t) => {
    await t.resolves(page.getByText('error.details').first().waitFor(), 'version 1')
    await page.getByRole('button', { name: 'Version 1' }).click()
    await page.getByRole('option', { name: 'Version 2' }).click()
    await t.resolves(page.getByText('error.errors').first().waitFor(), 'version 2')
  })

  await t.test('has the theme of the system', async (t) => {
    for (const theme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme: theme })
      await t.resolves(page.locator(`body.${theme}-mode`).waitFor(), theme)
    }
  })

  await t.test('opens at a section of the guide', async (t) => {
    await openSection(page, base, 'rate-limits')
    await page.waitForURL(/\/description\/rate-limits$/)
    await t.resolves(page.getByRole('heading', { name: 'Rate limits' }).first().waitFor())
    // The same in a page that is open already.
    await page.evaluate("location.hash = '#errors'")
    await page.waitForURL(/\/description\/errors$/)
    await t.resolves(page.getByRole('heading', { name: 'Errors' }).first().waitFor())
  })

  await t.test('opens at an error code, in lower and in upper case', async (t) => {
    for (const [code, title] of [
      ['RATE_LIMIT_EXCEEDED', '429 RATE_LIMIT_EXCEEDED'],
      ['validation_error', '400, 422 VALIDATION_ERROR'],
      ['OUT_OF_RANGE', 'OUT_OF_RANGE'],
      ['Forbidden', '403 FORBIDDEN'],
    ] as const) {
      await goToSection(page, code)
      await page.waitForURL(/\/description\/./)
      const heading = page.getByRole('heading', { name: title })
      await heading.waitFor()
      await t.resolves(
        page.waitForFunction(
          `[...document.querySelectorAll('h3')].some((each) =>
            each.textContent === '${title}' && Math.abs(each.getBoundingClientRect().top) < innerHeight / 2)`,
        ),
        code,
      )
    }
  })

  await t.test('leads an unknown address to the nearest section', async (t) => {
    for (const [address, section] of [
      ['nonsense', 'v1/description/introduction'],
      ['%zz', 'v1'],
      ['products', 'v1/tag/products'],
      ['v1/tag/products/POST/products', 'v1/tag/products'],
      ['v9/tag/nothing', 'v1/description/introduction'],
      ['v1/description/400-422-validation_error', 'v1/description/400-422-validation_error'],
      ['v1/tag/products/webhook/POST/products', 'v1/tag/products/webhook/POST/products'],
      [`${CREATE}.body.sku`, `${CREATE}.body.sku`],
    ] as const) {
      await openSection(page, base, address)
      await page.waitForURL(`${base}/docs/#${section}`)
      await t.resolves(page.getByRole('heading', { name: 'Getting an API key' }).waitFor(), address)
      t.equal(new URL(page.url()).hash, `#${section}`)
    }
  })

  await t.test('has a search that finds sections, error codes and statuses', async (t) => {
    await page.keyboard.press('Control+k')
    const search = page.getByRole('combobox', { name: 'Enter search query' })
    await search.fill('rate limit')
    await page.getByRole('option', { name: 'Rate limits' }).first().click()
    await t.resolves(page.waitForURL(/description\/rate-limits/))
    for (const [text, section] of [
      ['412', '412-precondition_failed'],
      ['RATE_LIMIT_EXCEEDED', '429-rate_limit_exceeded'],
      ['READ_ONLY', 'read_only'],
      ['TOO_LONG', 'too_long'],
    ] as const) {
      await page.keyboard.press('Control+k')
      await search.fill(text)
      await page.getByRole('option', { name: text }).first().click()
      await t.resolves(page.waitForURL(`**/description/${section}`), text)
    }
  })

  await t.test('has the rules of roles, events and webhooks, and shared parameters', async (t) => {
    await goToSection(page, 'v1/description/permissions')
    await t.resolves(page.getByRole('cell', { name: 'user-profiles' }).first().waitFor())
    await goToSection(page, 'v1/tag/webhook-endpoints')
    await t.resolves(page.getByRole('heading', { name: 'Webhook endpoint events' }).first().waitFor())
    const section = 'v1/tag/deliveries/POST/api/v1/webhook-endpoints/{endpoint_id}/deliveries'
    await goToSection(page, section)
    await t.resolves(page.locator(`[id="${section}"]`).getByText('The id of the resource').first().waitFor())
  })

  await t.test(
    'sends operations without a credential, and with an API key, which is not stored',
    async (t) => {
      await openSection(page, base, LIST)
      await page.locator(`[id="${LIST}"]`).waitFor()
      const sample = page.locator(`[id="${LIST}"] .scalar-card pre`, { hasText: "'X-API-Key: YOUR_API_KEY'" })
      await t.resolves(sample.first().waitFor(), 'the sample names the key as the guide does')
      t.equal((await sendFromPage(page)).status, 401)
      await openSection(page, base, '')
      await enterCredential(page, ADMIN_KEY)
      await goToSection(page, LIST)
      const { status, headers } = await sendFromPage(page)
      t.equal(status, 200)
      t.equal(headers['x-api-key'], ADMIN_KEY)
      t.notOk('authorization' in headers, 'and no token')
      t.notMatch(await readStorage(), ADMIN_KEY)
    },
  )

  await t.test(
    'has samples with the key, of which one choice of language is for all operations',
    async (t) => {
      const folder = testFolder(t)
      mkdirSync(join(folder, 'node_modules/@resource-api'), { recursive: true })
      const client = fileURLToPath(new URL('../../../client', import.meta.url))
      symlinkSync(client, join(folder, 'node_modules/@resource-api/client'))
      await page.locator(`[id="${CREATE}"] .scalar-card pre`).first().waitFor()
      const curl = await readSample(page, CREATE)
      t.match(curl, `X-API-Key: ${ADMIN_KEY}`)
      t.match(await readSample(page, LIST), `${PRODUCTS}?limit=20&sort=-created_at&status=active'`)
      const created = await run('bash', ['-c', `${curl.trim()} --fail-with-body`])
      t.match(JSON.parse(created.stdout).data, { sku: /./ })
      t.match(
        (await run('bash', ['-c', `${(await readSample(page, LIST)).trim()} --fail`])).stdout,
        'TEA-BROWSER',
      )

      await chooseLanguage(page, LIST, /Shell Curl/, 'Requests')
      await page
        .locator(`[id="${CREATE}"]`)
        .getByRole('button', { name: /Python Requests/ })
        .first()
        .waitFor()
      t.match((await run('python3', ['-c', await readSample(page, LIST)])).stdout, 'TEA-BROWSER')
      const python = (await readSample(page, CREATE)).replace(/TEA[^'"]*/, 'TEA-PYTHON')
      t.match(JSON.parse((await run('python3', ['-c', python])).stdout).data, { sku: 'TEA-PYTHON' })

      await chooseLanguage(page, LIST, /Python Requests/, 'Fetch')
      await page
        .locator(`[id="${CREATE}"]`)
        .getByRole('button', { name: /JavaScript Fetch/ })
        .first()
        .waitFor()
      t.match((await run(process.execPath, ['-e', await readSample(page, LIST)])).stdout, 'TEA-BROWSER')
      const fetched = (await readSample(page, CREATE)).replace(/TEA[^'"]*/, 'TEA-FETCH')
      t.match(JSON.parse((await run(process.execPath, ['-e', fetched])).stdout).data, { sku: 'TEA-FETCH' })
      await page.reload()
      await page.locator(`[id="${LIST}"]`).waitFor()
      t.match(await readSample(page, LIST), /^fetch\(/, 'the language is kept')
      await page.evaluate('localStorage.clear()')

      await chooseLanguage(page, LIST, /JavaScript Fetch/, 'TypeScript')
      await page.getByText(`baseUrl: "${base}"`).first().waitFor()
      const typescript = await readSample(page, LIST)
      writeFileSync(join(folder, 'sample.mjs'), typescript.replace('YOUR_API_KEY', ADMIN_KEY))
      t.match((await run(process.execPath, ['sample.mjs'], { cwd: folder })).stdout, 'TEA-BROWSER')
    },
  )

  await t.test('has the address under which it was opened', async (t) => {
    const other = base.replace('127.0.0.1', 'localhost')
    const opened = await openWatchedPage(browser, other)
    await openSection(opened.page, other, LIST)
    await opened.page.getByText(`${other}/api/v1/products`).first().waitFor()
    t.same(opened.complaints, [])
    await opened.page.close()
  })

  await t.test('needs no horizontal scrolling at a width of 390 pixels', async (t) => {
    await page.setViewportSize({ width: 390, height: 844 })
    await goToSection(page, 'v1/tag/webhook-endpoints/POST/api/v1/webhook-endpoints')
    await page.getByText('The types of events to send').first().waitFor()
    t.equal(await readWidth(), 390)
    const hidden = await page.evaluate(
      `[...document.querySelectorAll('.markdown table')].map((each) => each.scrollWidth - each.clientWidth)`,
    )
    t.ok(Array.isArray(hidden) && hidden.length > 0 && hidden.every((each) => each <= 0), `${hidden}`)
    await goToSection(page, 'v1/description/errors')
    await page.getByText('Every error has the form').first().waitFor()
    t.equal(await readWidth(), 390)
  })

  await t.test('shows the response of a request on a phone, within its width', async (t) => {
    await openSection(page, base, CREATE)
    await page
      .getByRole('button', { name: /Test Request.*post \/api\/v1\/products\)/ })
      .first()
      .click()
    const client = page.getByRole('dialog', { name: 'API Client' })
    await client.getByRole('button', { name: /^Send post request/ }).click()
    const status = client.getByText('401 Unauthorized').first()
    await status.waitFor()
    const box = await status.boundingBox()
    t.ok(box && box.y + box.height < 844, `${box?.y}`)
    await t.resolves(client.locator('a[href^="https:"]').waitFor({ state: 'detached' }))
    const credential = await client.getByRole('button', { name: /apiKey$/ }).boundingBox()
    t.ok(credential && credential.x + credential.width <= 390, `${credential?.x}`)
    await page.getByRole('button', { name: 'Close Client' }).click()
  })

  await t.test('requests no other host, breaks no link, and does not violate its policy', async (t) => {
    const links = await page.locator('a[href^="http"]:visible').evaluateAll((found) => found.map(String))
    t.same(findForeign(links, base), [])
    for (const link of new Set(links.map((each) => each.split('#', 1)[0] ?? '')))
      t.ok((await fetch(link)).ok, link)
    t.same(findForeign(requests, base), [])
    t.same(complaints.filter(isUnexpected), [])
  })
})

t.test('the documentation page without its scripts', { skip: getSkipReason() }, async (t) => {
  const base = await start(t)
  const browser = await openBrowser(t)
  for (const [title, javaScriptEnabled, selector, text] of [
    ['without JavaScript', false, 'noscript p', 'This page needs JavaScript.'],
    ['without the script of Scalar', true, '#failure', 'The reference could not be loaded.'],
  ] as const) {
    const context = await browser.newContext({ javaScriptEnabled, colorScheme: 'dark' })
    const page = await context.newPage()
    await page.route('**/scalar.js', (route) => route.abort())
    await page.goto(`${base}/docs/`)
    await page.locator(`${selector}:visible`).waitFor()
    t.match(await page.locator(selector).textContent(), text)
    const [placeholder, scheme] = await page.evaluate<string[]>(
      `[getComputedStyle(document.querySelector('#app'), '::before').display, getComputedStyle(document.documentElement).colorScheme]`,
    )
    t.same([placeholder, scheme], ['none', 'light dark'], title)
    await page.getByRole('link', { name: 'the start page' }).click()
    await t.resolves(page.getByRole('link', { name: 'version 1' }).waitFor(), title)
    await context.close()
  }
})

t.test('the documentation page in a browser that blocks storage', { skip: getSkipReason() }, async (t) => {
  const base = await start(t)
  const { page, complaints } = await openWatchedPage(await openBrowser(t), base)
  await page.addInitScript(`for (const name of ['localStorage', 'sessionStorage'])
    Object.defineProperty(globalThis, name, {
      configurable: true,
      get() { throw new DOMException('Access is denied', 'SecurityError') },
    })`)
  await page.goto(`${base}/docs/#${LIST}`)
  await page.locator(`[id="${LIST}"]`).waitFor()
  await chooseLanguage(page, LIST, /Shell Curl/, 'Requests')
  await t.resolves(page.getByText('requests.get').first().waitFor())
  t.same(complaints, [])
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
  await page.getByRole('heading', { name: 'Getting an API key' }).waitFor()
  t.same(findForeign(requests, base), [])
  t.same(complaints.filter(isUnexpected), [])
})
