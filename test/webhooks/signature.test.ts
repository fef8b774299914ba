/** Webhooks are signed as Standard Webhooks 1.0 defines it, checked against its reference package. */
import { Webhook } from 'standardwebhooks'
import t from 'tap'
import { createWebhookSecret, signWebhook } from '../../plugins/webhooks/delivery/signature.ts'

const message = (secrets: readonly string[], body = '{"type":"products.created"}') => {
  const timestampSeconds = Math.floor(Date.now() / 1_000)
  const signature = signWebhook({ id: 'msg_1', timestampSeconds, body, secrets })
  const headers = {
    'webhook-id': 'msg_1',
    'webhook-timestamp': String(timestampSeconds),
    'webhook-signature': signature,
  }
  return { body, headers, timestampSeconds }
}

t.test('the reference package verifies a signature', async (t) => {
  for (const text of ['', '{}', '{"name":"Zoë 🦊"}', 'x'.repeat(100_000)]) {
    const secret = createWebhookSecret()
    const { body, headers } = message([secret], JSON.stringify(text))
    t.same(new Webhook(secret).verify(body, headers), text)
  }
})

t.test('a signature is the one that the reference package makes', async (t) => {
  const secret = createWebhookSecret()
  const { body, headers, timestampSeconds } = message([secret])
  const expected = new Webhook(secret).sign('msg_1', new Date(timestampSeconds * 1_000), body)
  t.equal(headers['webhook-signature'], expected)
})

t.test('during a rotation, a message is valid with either secret and with no other', async (t) => {
  const secrets = [createWebhookSecret(), createWebhookSecret()]
  const { body, headers } = message(secrets)
  t.match(headers['webhook-signature'], /^v1,[A-Za-z0-9+/]{43}= v1,[A-Za-z0-9+/]{43}=$/)
  for (const secret of secrets) t.doesNotThrow(() => new Webhook(secret).verify(body, headers))
  t.throws(() => new Webhook(createWebhookSecret()).verify(body, headers))
})

t.test('a changed body, id or timestamp is not valid', async (t) => {
  const secret = createWebhookSecret()
  const { body, headers, timestampSeconds } = message([secret])
  const webhook = new Webhook(secret)
  t.throws(() => webhook.verify(`${body} `, headers))
  t.throws(() => webhook.verify(body, { ...headers, 'webhook-id': 'msg_2' }))
  t.throws(() => webhook.verify(body, { ...headers, 'webhook-timestamp': String(timestampSeconds + 1) }))
})

t.test('a secret has 32 random bytes', async (t) => {
  const secrets = Array.from({ length: 100 }, createWebhookSecret)
  for (const secret of secrets) t.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
  t.equal(new Set(secrets).size, 100)
})

t.test('a text that is not a secret is not used as one', async (t) => {
  t.throws(() => message(['c2VjcmV0']), { message: /must begin with whsec_/ })
})
