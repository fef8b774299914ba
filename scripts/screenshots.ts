/**
 * `npm run screenshots`: takes the pictures of the README from a built server without data: `/docs` in each theme, and
 * the page on which a password is reset. It needs /usr/bin/chromium.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Browser, chromium, type Page } from 'playwright-core'

const root = new URL('../', import.meta.url)
const WIDTH = 1280
/** For a machine that is busy. */
const TIMEOUT_MS = 120_000
/** Of WebP, from 0 to 100. */
const QUALITY = 80

/** Starts the server on a free port, with its data in a folder. Returns its address. */
async function start(folder: string): Promise<{ server: ChildProcess; url: string }> {
  const server = spawn(process.execPath, [fileURLToPath(new URL('dist/src/server.js', root))], {
    cwd: folder,
    // The pictures show the address of a first start, whatever the port is.
    env: { PATH: process.env.PATH, PORT: '0', PUBLIC_URL: 'http://localhost:3000' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let said = ''
  for await (const chunk of server.stdout) {
    said += chunk
    const url = /Ready at (http:\/\/127\.0\.0\.1:\d+)/.exec(said)?.[1]
    if (url !== undefined) return { server, url }
  }
  throw new Error(`The server ended: ${said}`)
}

/** Writes what a page shows. Playwright itself has no WebP. */
async function write(page: Page, name: string) {
  const session = await page.context().newCDPSession(page)
  const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: QUALITY })
  writeFileSync(new URL(`docs/images/${name}.webp`, root), Buffer.from(data, 'base64'))
}

async function takeDocs(browser: Browser, url: string, theme: 'light' | 'dark') {
  const page = await browser.newPage({ viewport: { width: WIDTH, height: 800 }, colorScheme: theme })
  page.setDefaultTimeout(TIMEOUT_MS)
  await page.goto(`${url}/docs/#v1/tag/users/GET/api/v1/users`)
  await page.getByRole('heading', { name: 'List users' }).first().waitFor()
  await page.getByText('YOUR_API_KEY').first().waitFor()
  // Scalar scrolls to the section once more when everything above it is there.
  await page.waitForTimeout(5000)
  await write(page, `docs-${theme}`)
}

async function takeAccount(browser: Browser, url: string) {
  const page = await browser.newPage({ viewport: { width: WIDTH, height: 480 }, colorScheme: 'light' })
  await page.goto(`${url}/account/reset`)
  await write(page, 'account')
}

async function main() {
  const folder = mkdtempSync(join(tmpdir(), 'screenshots-'))
  const { server, url } = await start(folder)
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] })
  try {
    for (const theme of ['light', 'dark'] as const) await takeDocs(browser, url, theme)
    await takeAccount(browser, url)
  } finally {
    await browser.close()
    server.kill()
    if (server.exitCode === null) await once(server, 'exit')
    rmSync(folder, { recursive: true, force: true })
  }
}

await main()
