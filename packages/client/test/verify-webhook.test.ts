/** The client package verifies webhooks as Standard Webhooks 1.0 prescribes. */
import { Webhook } from 'standardwebhooks'
import t from 'tap'
import { verifyWebhook, type WebhookOptions, WebhookVerificationError } from '../src/index.ts'

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
  const upper = Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value])
  for (const each of [new Headers(headers), Object.fromEntries(upper)])
    t.equal(await findError({ headers: each }), undefined, 'header fields in any letter case')
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

t.test('a webhook that was changed, or lacks a part, is rejected with a code', async (t) => {
  const headers = createHeaders()
  const signature = headers['webhook-signature']
  const replace = (name: string, ...values: (string | string[] | undefined)[]) =>
    values.map((value): Partial<WebhookOptions> => ({ headers: { ...headers, [name]: value } }))
  const later = String(Number(headers['webhook-timestamp']) + 1)
  const wrongSignatures = [
    ...['v1,', 'v1', ',', ' ', signature.slice(3), signature.slice(0, -1), `${signature}=`],
    ...['v2,', 'v1a,', 'V1,'].map((version) => signature.replace('v1,', version)),
  ]
  const at = (seconds: number) => ({ headers: createHeaders(SECRET, NOW + seconds * 1000) })
  const refusals: Record<string, Partial<WebhookOptions>[]> = {
    INVALID_SIGNATURE: [
      ...[{ body: BODY.replace('Tea', 'tea') }, { body: `${BODY} ` }, { secret: OTHER_SECRET }],
      ...[...replace('webhook-id', 'other'), ...replace('webhook-timestamp', later)],
      ...replace('webhook-signature', ...wrongSignatures),
    ],
    MISSING_HEADER: [
      ...Object.keys(headers).flatMap((name) => replace(name, undefined, '', ['one', 'two'])),
      { headers: new Headers() },
    ],
    TIMESTAMP_OUT_OF_RANGE: [
      ...[at(-301), at(301), { ...at(-11), toleranceSeconds: 10 }, { toleranceSeconds: Number.NaN }],
    ],
    INVALID_TIMESTAMP: replace('webhook-timestamp', 'now', '-5', '1e9', '1.5', ' 1', '0x10', '9'.repeat(20)),
    INVALID_BODY: [{ body: 'not JSON', headers: createHeaders(SECRET, NOW, 'not JSON') }],
  }
  for (const [code, all] of Object.entries(refusals)) {
    for (const options of all) t.equal(await findError(options), code, JSON.stringify(options))
  }
  for (const options of [{}, at(-300), at(300), { ...at(-10), toleranceSeconds: 10 }])
    t.equal(await findError(options), undefined, 'within the tolerance')
  await t.rejects(verifyWebhook({ body: BODY, ...at(-400), secret: SECRET, now: NOW }), {
    message: 'webhook-timestamp is 400 s in the past; 300 s are allowed',
  })
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
