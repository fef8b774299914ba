/** The client package verifies webhooks as Standard Webhooks 1.0 prescribes. */
import { Webhook } from 'standardwebhooks'
import t from 'tap'
import { verifyWebhook, type WebhookOptions, WebhookVerificationError } from '../../client/src/index.ts'

const SECRET = `whsec_${Buffer.from('a secret of thirty-two characters').toString('base64')}`
const OTHER_SECRET = `whsec_${Buffer.from('another secret of the same length').toString('base64')}`
const ID = '01a204a7-62ae-72fd-96c9-e4ed7b9e78e9'
const NOW = Date.parse('2026-11-22T12:00:00.500Z')
const BODY = JSON.stringify({
  type: 'products.updated',
  timestamp: '2026-11-22T12:00:00.000Z',
  data: { id: ID, type: 'products.updated', data: { name: 'Thé vert 🍵' }, previous: { name: 'Tea' } },
})

/** Returns the headers of a webhook, signed by the reference implementation. */
const createHeaders = (secret = SECRET, time = NOW, body = BODY) => ({
  'webhook-id': ID,
  'webhook-timestamp': String(Math.floor(time / 1000)),
  'webhook-signature': new Webhook(secret).sign(ID, new Date(time), body),
})

/** Returns the code of the error, or undefined if the webhook is valid. */
const findError = async (options: Partial<WebhookOptions>) => {
  // The members of a union cannot be spread one by one.
  const all = { body: BODY, headers: createHeaders(), secret: SECRET, now: NOW, ...options } as WebhookOptions
  const error = await verifyWebhook(all).catch((reason) => reason)
  return error instanceof WebhookVerificationError ? error.code : undefined
}

t.test('a webhook that the reference implementation has signed is valid', async (t) => {
  const headers = createHeaders()
  const payload = JSON.parse(BODY)
  for (const body of [BODY, new TextEncoder().encode(BODY), Buffer.from(BODY)])
    t.strictSame(await verifyWebhook({ body, headers, secret: SECRET, now: NOW }), payload)
  t.equal(await findError({ secret: SECRET.replace('whsec_', '') }), undefined)
  const current = createHeaders(SECRET, Date.now())
  t.strictSame(await verifyWebhook({ body: BODY, headers: current, secret: SECRET }), payload)
})

t.test('the vector of the specification is valid', async (t) => {
  const body = '{"test": 2432232314}'
  const headers = {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  }
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
  t.match(await verifyWebhook({ body, headers, secret, now: 1614265330_000 }), { test: 2432232314 })
})

t.test('header fields are read from Headers and in any letter case', async (t) => {
  const headers = createHeaders()
  const upper = Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value])
  for (const each of [new Headers(headers), Object.fromEntries(upper)])
    t.equal(await findError({ headers: each }), undefined)
})

t.test('during a rotation, one of several secrets and one of several signatures must match', async (t) => {
  const [former, next] = [createHeaders(SECRET), createHeaders(OTHER_SECRET)]
  const both = `${former['webhook-signature']} ${next['webhook-signature']}`
  for (const secret of [SECRET, OTHER_SECRET]) {
    t.equal(await findError({ headers: { ...former, 'webhook-signature': both }, secret }), undefined)
  }
  const options = { body: BODY, now: NOW, secrets: [SECRET, OTHER_SECRET] }
  for (const headers of [former, next]) t.ok(await verifyWebhook({ ...options, headers }))
  for (const secrets of [[OTHER_SECRET], []])
    await t.rejects(verifyWebhook({ ...options, headers: former, secrets }), { code: 'INVALID_SIGNATURE' })
})

t.test('a webhook that was changed is rejected', async (t) => {
  const headers = createHeaders()
  const signature = headers['webhook-signature']
  const later = String(Number(headers['webhook-timestamp']) + 1)
  t.equal(await findError({}), undefined)
  for (const changed of [
    { body: BODY.replace('Tea', 'tea') },
    { body: `${BODY} ` },
    { secret: OTHER_SECRET },
    { headers: { ...headers, 'webhook-id': 'other' } },
    { headers: { ...headers, 'webhook-timestamp': later } },
    ...['v1,', 'v1', ',', ' ', signature.slice(3), signature.slice(0, -1), `${signature}=`],
    ...['v2,', 'v1a,', 'V1,'].map((version) => signature.replace('v1,', version)),
  ]) {
    const options =
      typeof changed === 'string' ? { headers: { ...headers, 'webhook-signature': changed } } : changed
    t.equal(await findError(options), 'INVALID_SIGNATURE', JSON.stringify(changed))
  }
})

t.test('a webhook that lacks a header field is rejected', async (t) => {
  const headers = createHeaders()
  for (const name of Object.keys(headers)) {
    for (const value of [undefined, '', ['one', 'two']]) {
      t.equal(await findError({ headers: { ...headers, [name]: value } }), 'MISSING_HEADER', name)
    }
  }
  t.equal(await findError({ headers: new Headers() }), 'MISSING_HEADER')
})

t.test('a webhook may be 5 minutes old or early', async (t) => {
  const at = (seconds: number) => ({ headers: createHeaders(SECRET, NOW + seconds * 1000) })
  for (const seconds of [-300, 300]) t.equal(await findError(at(seconds)), undefined)
  for (const seconds of [-301, 301]) t.equal(await findError(at(seconds)), 'TIMESTAMP_OUT_OF_RANGE')
  t.equal(await findError({ ...at(-11), toleranceSeconds: 10 }), 'TIMESTAMP_OUT_OF_RANGE')
  t.equal(await findError({ ...at(-10), toleranceSeconds: 10 }), undefined)
  t.equal(await findError({ toleranceSeconds: Number.NaN }), 'TIMESTAMP_OUT_OF_RANGE')
  await t.rejects(verifyWebhook({ body: BODY, ...at(-400), secret: SECRET, now: NOW }), {
    message: 'webhook-timestamp is 400 s in the past; 300 s are allowed',
  })
  for (const timestamp of ['now', '-5', '1e9', '1.5', ' 1', '0x10', '9'.repeat(20)]) {
    const headers = { ...createHeaders(), 'webhook-timestamp': timestamp }
    t.equal(await findError({ headers }), 'INVALID_TIMESTAMP', timestamp)
  }
})

t.test('a signed body that is not JSON is rejected', async (t) => {
  const body = 'not JSON'
  t.equal(await findError({ body, headers: createHeaders(SECRET, NOW, body) }), 'INVALID_BODY')
})

t.test('mistakes of the receiver are TypeErrors, not rejected webhooks', async (t) => {
  const headers = createHeaders()
  for (const secret of ['', 'whsec_', 'whsec_é', 'not base64!']) {
    await t.rejects(verifyWebhook({ body: BODY, headers, secret, now: NOW }), {
      name: 'TypeError',
      message: 'A secret of a webhook is base64 after whsec_',
    })
  }
  // A framework may have parsed the body.
  await t.rejects(verifyWebhook({ body: JSON.parse(BODY), headers, secret: SECRET, now: NOW }), {
    name: 'TypeError',
    message: 'body must be the text or the bytes of the request, not the parsed JSON',
  })
})
