/**
 * No state of the documentation page has a fault of accessibility that axe finds: in both themes, on a desktop and on a
 * phone. Scalar's own markup is repaired by packages/docs/src/openapi/browser/accessibility.js.
 */
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { getSkipReason, openBrowser, readAccessibilityFaults } from '../../../testing/helpers/browser.ts'
import { createServerSettings, startServer } from '../../../testing/helpers/process.ts'

const QUIET_MS = 300
/** What the page renders while axe reads it is repaired soon after. A fault that stays for this time is one. */
const REPAIR_MS = 10_000

/** Waits until the page has not changed for a while: a part that is not rendered yet has no fault. */
const settle = (page: Page) =>
  page.evaluate(`new Promise((resolve) => {
    const end = () => { observer.disconnect(); resolve() }
    let timer = setTimeout(end, ${QUIET_MS})
    const observer = new MutationObserver(() => {
      clearTimeout(timer)
      timer = setTimeout(end, ${QUIET_MS})
    })
    observer.observe(document.body, { subtree: true, childList: true, attributes: true })
  })`)

async function check(t: Test, page: Page, state: string, selector = 'html') {
  await settle(page)
  const end = performance.now() + REPAIR_MS
  let faults = await readAccessibilityFaults(page, selector)
  while (faults.length > 0 && performance.now() < end) faults = await readAccessibilityFaults(page, selector)
  t.same(faults, [], state)
}

const getButton = (page: Page, name: RegExp) => page.getByRole('button', { name }).first()

/** The buttons of the text that open a menu. */
const MENUS: readonly [name: RegExp, state: string][] = [
  [/^More languages/, 'the languages of samples'],
  [/apiKey$/, 'the kinds of credentials'],
]

/** Opens a menu, and closes it. */
async function checkMenu(t: Test, page: Page, name: RegExp, state: string) {
  await getButton(page, name).click()
  await page.locator('[role=listbox]:visible').first().waitFor()
  await check(t, page, state)
  await page.keyboard.press('Escape')
}

const USERS = 'v1/tag/users'

/** The sections of operations, one of each method. */
const OPERATIONS = [
  `${USERS}/GET/api/v1/users`,
  `${USERS}/POST/api/v1/users`,
  `${USERS}/PUT/api/v1/users/{id}`,
  `${USERS}/PATCH/api/v1/users/{id}`,
  `${USERS}/DELETE/api/v1/users/{id}`,
]

/** Opens what an operation has: its responses, and the members of its schemas. */
async function expand(page: Page, section: string) {
  const closed = page.locator(
    `[id="${section}"] :is(.parameter-item-trigger, .schema-card-title)[aria-expanded=false]`,
  )
  while ((await closed.count()) > 0) await closed.first().click()
}

t.test('the documentation page has no fault of accessibility', { skip: getSkipReason() }, async (t) => {
  const base = (await startServer(t, { ...(await createServerSettings(t)), HOST: '127.0.0.1' })).url
  const browser = await openBrowser(t)
  for (const width of [1440, 390]) {
    for (const theme of ['light', 'dark'] as const) {
      await t.test(`${theme}, ${width} pixels wide`, async (t) => {
        const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme: theme })
        page.setDefaultTimeout(60_000)
        const bodies: Promise<{ responseBodySize: number }>[] = []
        page.on('requestfinished', (request) => bodies.push(request.sizes()))
        await page.goto(`${base}/docs/`)
        await page.getByRole('heading', { name: 'Headers of every response' }).waitFor()
        await check(t, page, 'the first view')
        const sizes = await Promise.all(bodies)
        const total = sizes.reduce((sum, { responseBodySize }) => sum + responseBodySize, 0)
        t.ok(total > 500_000 && total < 1_000_000, `${total} bytes are transferred`)

        for (const [name, state] of MENUS) await checkMenu(t, page, name, state)

        if (width < 1000) {
          await getButton(page, /open menu/i).click()
          await check(t, page, 'the menu')
        }
        await checkMenu(t, page, /^Version 1/, 'the versions')
        await getButton(page, /search/i).click()
        await page.getByRole('combobox', { name: 'Enter search query' }).fill('rate limit')
        await page.getByRole('option', { name: 'Rate limits' }).first().waitFor()
        await check(t, page, 'the search')
        await page.keyboard.press('Escape')

        await page.goto('about:blank')
        for (const section of OPERATIONS) {
          await page.goto(`${base}/docs/#${section}`)
          await page.locator(`[id="${section}"] .parameter-item-trigger`).first().waitFor()
          await check(t, page, section, `[id="${section}"]`)
        }
        await page.goto(`${base}/docs/#${OPERATIONS[1]}`)
        await expand(page, OPERATIONS[1] ?? '')
        await check(t, page, 'an operation with its schemas')
        await checkMenu(t, page, /Shell Curl/, 'the languages of a sample')

        await getButton(page, /Test Request.*post \/api\/v1\/users\)/).click()
        const client = page.getByRole('dialog', { name: 'API Client' })
        await client.getByRole('button', { name: /^Send post request/ }).waitFor()
        await check(t, page, 'the request client')
        await client.getByRole('button', { name: /^Send post request/ }).click()
        await client.getByText('UNAUTHORIZED').first().waitFor()
        await check(t, page, 'the request client with a response')
        await getButton(page, /^Close Client/).click()
        await page.getByRole('main').waitFor()

        await page.close()
      })
    }
  }
})
