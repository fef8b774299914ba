/** Runs Debian's Chromium and records what a page does. */
import { existsSync } from 'node:fs'
import axe from 'axe-core'
import { type Browser, chromium, type Page } from 'playwright-core'
import type { Owner } from './database.ts'

const CHROMIUM = '/usr/bin/chromium'

/** Returns why a browser test cannot run, or false; in CI it must run. */
export const getSkipReason = (): string | false =>
  existsSync(CHROMIUM) || process.env.CI ? false : `there is no ${CHROMIUM} (apt-get install chromium)`

export async function openBrowser(t: Owner): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  })
  t.teardown(() => browser.close())
  return browser
}

export interface WatchedPage {
  page: Page
  /** Every URL that the page requested. */
  requests: string[]
  /** Errors in the console or in scripts, including violations of the content security policy. */
  complaints: string[]
}

/** Opens a page that can reach only the host of `base`, and records what it does. */
export async function openWatchedPage(browser: Browser, base: string): Promise<WatchedPage> {
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } })
  const requests: string[] = []
  const complaints: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(String(error)))
  await page.route('**', (route) => {
    const url = route.request().url()
    requests.push(url)
    const isOwn = url.startsWith(`${base}/`) || /^(?:data|blob):/.test(url)
    return isOwn ? route.continue() : route.abort('blockedbyclient')
  })
  return { page, requests, complaints }
}

/** Returns the faults of accessibility that axe finds in a part of a page: WCAG 2.2 AA and good practice. */
export async function readAccessibilityFaults(page: Page, selector: string): Promise<string[]> {
  await page.evaluate(axe.source)
  return page.evaluate<string[]>(
    `axe.run('${selector}').then(({ violations }) =>
      violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => id + ': ' + html)))`,
  )
}
