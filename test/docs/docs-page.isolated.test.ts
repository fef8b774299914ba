/**
 * The documentation page works in a real browser, with both versions and within its content security
 * policy, and so does the start page.
 */
import type { Page } from 'playwright-core'
import t from 'tap'
import { ADMIN_KEY, testApp } from '../helpers/app.ts'
import { getSkipReason, openBrowser, openWatchedPage } from '../helpers/browser.ts'

const PASSWORD = 'nine brass cogs, turning'

/** Opens the page's request client on an operation. */
async function openClient(page: Page, group: string, name: string, operation: RegExp) {
  const link = page.getByRole('link', { name })
  if (!(await link.isVisible())) await page.getByRole('button', { name: `Open Group - ${group}` }).click()
  await link.click()
  await page.getByRole('button', { name: operation }).first().click()
  return page.getByRole('dialog', { name: 'API Client' })
}

t.test('the documentation page in a real browser', { skip: getSkipReason() }, async (t) => {
  const { admin, base } = await testApp(t)
  const { body: ada } = await admin.post('/api/v1/users', {
    name: 'Ada',
    email: 'ada@example.com',
    password: PASSWORD,
  })
  await admin.post('/api/v1/products', { sku: 'TEA-BROWSER', name: 'Tea', price_amount: 1999 })
  const browser = await openBrowser(t)
  const { page, requests, complaints } = await openWatchedPage(browser, base)

  await t.test('shows both versions and switches between them', async (t) => {
    await page.goto(`${base}/docs`)
    await page.getByRole('heading', { name: 'resource-api' }).waitFor()
    t.equal(await page.title(), 'resource-api')
    await page.getByText('error.details').first().waitFor()
    await page.getByRole('button', { name: 'Version 1' }).click()
    await page.getByRole('option', { name: 'Version 2' }).click()
    await page.getByText('error.errors').first().waitFor()
  })

  await t.test('offers the collections', async (t) => {
    for (const name of ['Postman', 'Bruno']) {
      const started = page.waitForEvent('download')
      await page
        .getByRole('link', { name: `${name} collection` })
        .first()
        .click()
      t.equal((await started).suggestedFilename(), `resource-api-v2.${name.toLowerCase()}.json`)
    }
  })

  await t.test(
    'shows a code sample of an operation, sends it with an API key and shows the reply',
    async (t) => {
      // The input of the key is visible, because its scheme is selected by default.
      await page
        .getByRole('textbox', { name: 'Value' })
        .or(page.locator('input[autocomplete=off]'))
        .first()
        .fill(ADMIN_KEY)
      await page.getByRole('button', { name: 'Open Group - products' }).click()
      await page.getByRole('link', { name: 'List products' }).click()
      await page.getByText(`curl "${base}/api/v2/products?status=active`).first().waitFor()
      await page
        .getByRole('button', { name: /Test Request.*\/api\/v2\/products\)/ })
        .first()
        .click()
      const answered = page.waitForResponse(`${base}/api/v2/products`)
      await page.getByRole('button', { name: 'Send get request' }).click()
      const answer = await answered
      t.equal(answer.status(), 200)
      t.equal(await answer.request().headerValue('x-api-key'), ADMIN_KEY)
      await page.getByText('200 OK').waitFor()
      await page.getByText('TEA-BROWSER').first().waitFor()
      await page.getByRole('button', { name: 'Close Client' }).click()
    },
  )

  await t.test('signs a user in and sends operations with the token only', async (t) => {
    const signIn = await openClient(
      page,
      'tokens',
      'Sign in or refresh a session',
      /Test Request.*\/tokens\)/,
    )
    const body = signIn.getByRole('region', { name: 'Request Body' }).locator('.cm-content')
    const example = (await body.innerText()).replace(/\n\n/g, '\n')
    t.match(
      JSON.parse(example),
      { data: { type: 'tokens', attributes: { grant_type: 'password', email: /@/, password: String } } },
      'an example stands there',
    )
    await body.fill(
      JSON.stringify({ grant_type: 'password', email: 'ada@example.com', password: PASSWORD }, null, 2),
    )
    const signed = page.waitForResponse(`${base}/api/v2/tokens`)
    await signIn.getByRole('button', { name: /^Send post request/ }).click()
    t.equal((await signed).status(), 201)
    await signIn.getByText('201 Created').waitFor()
    const token: string = (await (await signed).json()).data.attributes.access_token
    await signIn.getByText(token.slice(0, 40)).first().waitFor()
    await signIn.getByRole('button', { name: 'Close Client' }).click()

    const read = await openClient(page, 'users', 'Read a user', /Test Request.*get.*\/users\/\{id\}\)/)
    await read.getByRole('button', { name: /^Selected Auth Type/ }).click()
    await page.getByRole('option', { name: 'bearer' }).click()
    await page.getByRole('option', { name: 'apiKey' }).click()
    await read.getByRole('button', { name: 'Selected Auth Type: bearer' }).click()
    await read.getByRole('textbox', { name: 'Bearer Token' }).fill(token)
    const answered = page.waitForResponse(`${base}/api/v2/users/me`)
    await read.getByRole('button', { name: /^Send get request/ }).click()
    const answer = await answered
    const sent = await answer.request().allHeaders()
    t.equal(answer.status(), 200)
    t.equal(sent.authorization, `Bearer ${token}`)
    t.notOk('x-api-key' in sent, 'and no API key')
    t.equal((await answer.json()).data.id, ada.data.id)
    await read.getByText('200 OK').waitFor()
    await read.getByText('ada@example.com').first().waitFor()
  })

  await t.test('opens again after a reload', async () => {
    await page.reload()
    await page.getByRole('heading', { name: 'resource-api' }).first().waitFor()
  })

  await t.test('requests no other host and does not violate its content security policy', async (t) => {
    const links = await page.locator('a[href^="http"]:visible').evaluateAll((found) => found.map(String))
    t.same(
      links.filter((url) => !url.startsWith(`${base}/`)),
      [],
      'no link to another place',
    )
    t.same(
      requests.filter((url) => !url.startsWith(`${base}/`) && !url.startsWith('data:')),
      [],
    )
    t.same(complaints, [])
  })
})

t.test('the start page in a real browser', { skip: getSkipReason() }, async (t) => {
  const { base } = await testApp(t)
  const browser = await openBrowser(t)
  const { page, requests, complaints } = await openWatchedPage(browser, base)
  const readBackground = () => page.evaluate('getComputedStyle(document.body).backgroundColor')

  await page.emulateMedia({ colorScheme: 'light' })
  await page.goto(base)
  t.equal(await page.title(), 'resource-api')
  t.equal(await readBackground(), 'rgb(246, 247, 249)')
  await page.emulateMedia({ colorScheme: 'dark' })
  t.equal(await readBackground(), 'rgb(18, 21, 27)')

  const started = page.waitForEvent('download')
  await page.getByRole('link', { name: 'Postman collection' }).first().click()
  t.equal((await started).suggestedFilename(), 'resource-api-v1.postman.json')
  await page.getByRole('link', { name: 'Documentation' }).click()
  // The start page has a heading of the same name.
  await page.waitForURL(/\/docs\//)
  await page.getByRole('button', { name: 'Version 1' }).waitFor()
  t.same(
    requests.filter((url) => !url.startsWith(`${base}/`) && !url.startsWith('data:')),
    [],
  )
  t.same(complaints, [])
})
