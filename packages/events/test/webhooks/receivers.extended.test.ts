/** The receivers in docs/callers/receivers verify what the service sends. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { testFolder } from '../../../testing/helpers/database.ts'
import { findFreePort } from '../../../testing/helpers/network.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { createWebhookSecret, signWebhook } from '../../src/webhooks/delivery/signature.ts'

const receivers = new URL('../../../../docs/callers/receivers/', import.meta.url)

/** Compiles a Go program: `go run` would leave it running when it is killed itself. @returns the path of the program */
function buildProgram(source: string): string {
  const program = source.replace(/\.go$/, '')
  const { status, stderr } = spawnSync('go', ['build', '-o', program, source], { encoding: 'utf8' })
  if (status !== 0) throw new Error(stderr)
  return program
}

for (const { language, file, start, probe } of [
  { language: 'typescript', file: 'receiver.ts', start: [process.execPath, '--import', 'tsx'], probe: '-v' },
  { language: 'python', file: 'receiver.py', start: ['python3'], probe: '--version' },
  { language: 'go', file: 'receiver.go', start: ['go'], probe: 'version' },
]) {
  const [program = '', ...options] = start
  const isInstalled = spawnSync(program, [probe]).status === 0
  t.test(`the receiver in ${language} accepts signed requests alone`, { skip: !isInstalled }, async (t) => {
    const source = join(testFolder(t), file)
    copyFileSync(new URL(file, receivers), source)
    const [command = '', ...args] = language === 'go' ? [buildProgram(source)] : [program, ...options, source]
    const port = await findFreePort()
    const secret = createWebhookSecret()
    const child = spawn(command, args, {
      cwd: new URL('../../../..', import.meta.url),
      env: { ...process.env, PORT: String(port), WEBHOOK_SECRET: secret },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const hasExited = once(child, 'exit')
    t.teardown(() => {
      child.kill()
      return hasExited
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))

    const body =
      '{"type":"products.updated","timestamp":"2026-11-21T09:30:00.000Z","data":{"resource_id":"é"}}'
    const send = async (secrets: readonly string[], age = 0) => {
      const timestampSeconds = Math.floor(Date.now() / 1000) - age
      const headers = {
        'webhook-id': 'event-1',
        'webhook-timestamp': String(timestampSeconds),
        'webhook-signature': signWebhook({ id: 'event-1', timestampSeconds, body, secrets }),
      }
      const sent = fetch(`http://127.0.0.1:${port}/`, { method: 'POST', headers, body })
      return (await sent.catch(() => null))?.status
    }
    await waitUntil(async () => (await send([secret])) !== undefined)
    t.equal(await send([secret]), 204)
    t.equal(await send([createWebhookSecret(), secret]), 204)
    t.equal(await send([createWebhookSecret()]), 401)
    t.equal(await send([secret], 600), 401)
    t.match(output, /event-1 products\.updated/)
  })
}
