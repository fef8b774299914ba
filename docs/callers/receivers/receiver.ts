/** Receives webhooks with Node.js alone: checks the signature, stores the event, responds. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'

const key = Buffer.from((process.env.WEBHOOK_SECRET ?? '').replace('whsec_', ''), 'base64')

function isSigned(headers: NodeJS.Dict<string | string[]>, body: string): boolean {
  const timestamp = Number(headers['webhook-timestamp'])
  if (!(Math.abs(Date.now() / 1000 - timestamp) < 300)) return false
  const content = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`
  const expected = Buffer.from(`v1,${createHmac('sha256', key).update(content).digest('base64')}`)
  return String(headers['webhook-signature'])
    .split(' ')
    .map((signature) => Buffer.from(signature))
    .some((signature) => signature.length === expected.length && timingSafeEqual(signature, expected))
}

createServer(async (request, response) => {
  const body = await text(request)
  if (!isSigned(request.headers, body)) {
    response.writeHead(401).end()
    return
  }
  const { type, data } = JSON.parse(body)
  // Store the event here, unless its id is known. The work comes after the response.
  console.log(request.headers['webhook-id'], type, data.resource_id)
  response.writeHead(204).end()
}).listen(Number(process.env.PORT ?? 8080))
