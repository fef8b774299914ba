/** Event streams through the sample configurations of nginx, Caddy and HAProxy. */
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import t, { type Test } from 'tap'
import { createServerSettings, startServer } from '../../packages/testing/helpers/process.ts'
import { waitUntil } from '../../packages/testing/helpers/time.ts'
import { HOST, proxies, startProxy } from './start-proxy.ts'

const KEY = { 'X-API-Key': 'key-of-the-stream-test-key-of-the-stream-test' }
/** More comments, one every 5 s, than fit in the read timeouts of the samples of nginx and HAProxy, which are 15 s. */
const COMMENTS = 5

/** Opens a stream through the proxy on a port, which is closed after the test. */
async function openStream(t: Test, port: number) {
  const sent = request({
    ...{ host: '127.0.0.1', port, path: '/api/v1/events', rejectUnauthorized: false, servername: HOST },
    headers: { ...KEY, Host: HOST, Accept: 'text/event-stream' },
  })
  t.teardown(() => sent.destroy())
  sent.end()
  const [response]: IncomingMessage[] = await once(sent, 'response')
  if (response?.statusCode !== 200) throw new Error(`The response is ${response?.statusCode}`)
  const stream = { text: '', isOver: false, error: undefined as Error | undefined }
  response.setEncoding('utf8').on('data', (text: string) => {
    stream.text += text
  })
  for (const each of [sent, response])
    each.on('error', (error) => {
      stream.error = error
    })
  response.on('close', () => {
    stream.isOver = true
  })
  // The first block has the cursor at which the stream begins.
  await waitUntil(() => stream.text.includes('\nid: '))
  return { stream, close: () => sent.destroy() }
}

/** The tests mostly wait, so they run at the same time. */
const PARALLEL = { buffered: true }
t.jobs = proxies.length

for (const proxy of proxies) {
  t.test(`a stream through ${proxy.name} gets events, lasts, and ends well`, PARALLEL, async (t) => {
    const service = await startServer(t, {
      ...(await createServerSettings(t)),
      ...{ NODE_ENV: 'production', TRUST_PROXY: '127.0.0.1', HOST: '127.0.0.1', SHUTDOWN_DELAY: '0' },
      ADMIN_API_KEY: KEY['X-API-Key'],
    })
    const { port, read } = await startProxy(t, proxy, Number(new URL(service.url).port))
    const { stream } = await openStream(t, port)
    const left = await openStream(t, port)
    left.close()
    const logsLeaving = () => /"reason":"client"[^\n]*event stream ended/.test(service.output.out)
    await waitUntil(logsLeaving)

    /** Creates a product, and waits for its event: a proxy that buffers would keep it. */
    const receiveEvent = async (sku: string) => {
      const created = await read(
        { path: '/products', method: 'POST', headers: { ...KEY, 'Content-Type': 'application/json' } },
        JSON.stringify({ sku, name: sku, price_amount: 1 }),
      )
      t.equal(created.status, 201)
      await waitUntil(() => stream.text.includes(`"${sku}"`))
    }
    await receiveEvent('A')

    const countComments = () => stream.text.match(/^:$/gm)?.length ?? 0
    const before = countComments()
    await waitUntil(() => stream.isOver || countComments() >= before + COMMENTS)
    t.equal(stream.isOver, false, 'comments keep the connection open longer than the idle timeout')
    await receiveEvent('B')

    service.child.kill('SIGTERM')
    await waitUntil(() => stream.isOver)
    t.equal(stream.error, undefined, 'a shutdown ends the stream without an error')
    t.ok(stream.text.endsWith('\n\n'), 'after a whole event')
    t.match(await service.ended, { code: 0 })
    t.match(service.output.out, /"reason":"shutdown"[^\n]*event stream ended/)
  })
}
