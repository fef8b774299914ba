/** Debian's Chromium, where there is one, and what a page did in it. */
import { existsSync } from 'node:fs'
import { type Browser, chromium, type Page } from 'playwright-core'
import type { Owner } from './database.ts'

const CHROMIUM = '/usr/bin/chromium'

/** Why a browser test cannot run here, or false; a CI without a browser is broken, not excused. */
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
  /** Every address that the page asked for. */
  requests: string[]
  /** Errors in the console or in scripts, refusals of the page's policy among them. */
  complaints: string[]
}

/** A page that reaches no other host than `base`'s, and is watched. */
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
