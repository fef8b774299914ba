import t from 'tap'
import { ADMIN_KEY, testApp } from './helpers/app.ts'
import { openBrowser, watchedPage, withoutBrowser } from './helpers/browser.ts'

t.test('the page of the documents, in a real browser', { skip: withoutBrowser() }, async (t) => {
  const { admin, base } = await testApp(t)
  await admin.post('/api/v1/products', { sku: 'TEA-BROWSER', name: 'Tea', price_amount: 1999 })
  const browser = await openBrowser(t)
  const { page, requests, complaints } = await watchedPage(browser, base)

  await t.test('shows both versions, and switches between them', async (t) => {
    await page.goto(`${base}/docs`)
    await page.getByRole('heading', { name: 'resource-api' }).waitFor()
    t.equal(await page.title(), 'resource-api')
    await page.getByText('error.details').first().waitFor()
    await page.getByRole('button', { name: 'Version 1' }).click()
    await page.getByRole('option', { name: 'Version 2' }).click()
    await page.getByText('error.errors').first().waitFor()
  })

  await t.test('sends an operation with the key, and shows the answer', async (t) => {
    // The key's field is there at once: its scheme is the one that is selected.
    await page
      .getByRole('textbox', { name: 'Value' })
      .or(page.locator('input[autocomplete=off]'))
      .first()
      .fill(ADMIN_KEY)
    await page.getByRole('button', { name: 'Open Group - products' }).click()
    await page.getByRole('link', { name: 'List products' }).click()
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
  })

  await t.test('opens again from what the browser keeps', async () => {
    await page.reload()
    await page.getByRole('heading', { name: 'resource-api' }).first().waitFor()
  })

  await t.test('leads nowhere else, asks nobody else, and breaks no rule of its policy', async (t) => {
    const links = page.locator('a[href^="http"]:visible')
    t.equal(await links.count(), 0, 'no link to another place')
    t.same(
      requests.filter((url) => !url.startsWith(`${base}/`) && !url.startsWith('data:')),
      [],
    )
    t.same(complaints, [])
  })
})
