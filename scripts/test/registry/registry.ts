/** A registry of packages on the loopback interface: it has those that are published to it, and passes others through. */
import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { findFreePort } from '../../../packages/testing/helpers/network.ts'
import { waitUntil } from '../../../packages/testing/helpers/time.ts'
import { runIn } from '../git-clone.ts'

const PROGRAM = fileURLToPath(new URL('node_modules/verdaccio/bin/verdaccio', import.meta.url))

const isServed = (url: string) =>
  fetch(`${url}-/ping`).then(
    ({ ok }) => ok,
    () => false,
  )

/** Starts it. @returns its address, and the token of a publisher */
export async function startRegistry(t: Test, folder: string): Promise<{ url: string; token: string }> {
  mkdirSync(folder)
  const own = { access: '$all', publish: '$authenticated' }
  const config = {
    storage: join(folder, 'storage'),
    auth: { htpasswd: { file: join(folder, 'htpasswd') } },
    uplinks: { upstream: { url: runIn(folder, 'npm', 'config', 'get', 'registry').output.trim() } },
    packages: {
      '@resource-api/*': own,
      'create-resource-api': own,
      '**': { access: '$all', proxy: 'upstream' },
    },
    log: { type: 'stdout', format: 'json', level: 'error' },
  }
  const file = join(folder, 'config.yaml')
  // JSON is YAML.
  writeFileSync(file, JSON.stringify(config))
  const url = `http://127.0.0.1:${await findFreePort()}/`
  const child = spawn(process.execPath, [PROGRAM, '--config', file, '--listen', url], {
    env: { PATH: process.env.PATH, HOME: folder, NODE_EXTRA_CA_CERTS: process.env.NODE_EXTRA_CA_CERTS },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  await waitUntil(() => isServed(url), 60_000)
  const response = await fetch(`${url}-/user/org.couchdb.user:publisher`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'publisher', password: 'twelve brass cogs, turning' }),
  })
  const { token }: { token: string } = JSON.parse(await response.text())
  return { url, token }
}
