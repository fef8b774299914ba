/** An idle keep-alive connection holds no memory of the request that it served last. */
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { ADMIN_KEY, testApp } from '../../../testing/helpers/app.ts'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

const { app, port } = await testApp(t)
const head = `Host: a\r\nX-API-Key: ${ADMIN_KEY}\r\n`
const body = '{"sku":"KEPT","name":"Kept","price_amount":1}'
const requests = {
  'a list': `GET /api/v1/products HTTP/1.1\r\n${head}\r\n`,
  'a change': `POST /api/v1/products HTTP/1.1\r\n${head}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  'what is not there': `GET /api/v1/nothing HTTP/1.1\r\n${head}\r\n`,
  'a question of operators': 'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n',
}

for (const [what, bytes] of Object.entries(requests)) {
  t.test(`an idle connection retains no objects after ${what}`, async (t) => {
    const seen: WeakRef<IncomingMessage | ServerResponse>[] = []
    const see = (request: IncomingMessage, reply: ServerResponse) => {
      seen.push(new WeakRef(request), new WeakRef(reply))
    }
    app.server.on('request', see)
    const socket = connect(port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.write(bytes)
    await once(socket, 'data')
    app.server.off('request', see)

    t.equal(seen.length, 2)
    const isKept = () => seen.some((each) => each.deref() !== undefined)
    // What is gone is gone in a turn or two; what is kept would be for as long as the connection.
    for (let tries = 0; isKept() && tries < 100; tries++) {
      await wait(10)
      collect()
    }
    t.notOk(isKept())
    t.notOk(socket.closed, 'and the connection still stands')
  })
}
