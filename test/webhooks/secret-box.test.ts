/** Secrets of endpoints are encrypted for one endpoint, and no key, damage or other endpoint reveals them. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { createSecretBox } from '../../plugins/webhooks/delivery/secret-box.ts'
import { createWebhookSecret } from '../../plugins/webhooks/delivery/signature.ts'

const ID = '0197a3b2-0000-7000-8000-000000000001'
const OTHER_ID = '0197a3b2-0000-7000-8000-000000000002'
const current = randomBytes(32)
const box = createSecretBox({ current, previous: [] })

t.test('a secret is read back, and stands in the text in no form', async (t) => {
  for (const plain of [createWebhookSecret(), '', 'Zoë 🦊']) {
    const text = box.encrypt(plain, ID)
    t.match(text, /^v1\.[0-9a-f]{8}\.[A-Za-z0-9_-]+$/)
    t.equal(box.decrypt(text, ID), plain)
    const [, , sealed = ''] = text.split('.')
    if (plain !== '') t.notOk(Buffer.from(sealed, 'base64url').includes(plain))
  }
})

t.test('each encryption has a nonce of its own', async (t) => {
  t.equal(new Set(Array.from({ length: 100 }, () => box.encrypt('secret', ID))).size, 100)
})

t.test('the text of another endpoint is refused', async (t) => {
  const text = box.encrypt('secret', ID)
  t.throws(() => box.decrypt(text, OTHER_ID), { message: /damaged or belongs to another one/ })
})

t.test('a key that is not configured is named in the error', async (t) => {
  const text = createSecretBox({ current: randomBytes(32), previous: [randomBytes(32)] }).encrypt(
    'secret',
    ID,
  )
  const [, keyId = ''] = text.split('.')
  t.throws(() => box.decrypt(text, ID), { message: new RegExp(`${ID}.*key ${keyId}.*APP_SECRET_PREVIOUS`) })
})

t.test('after a change of the key, the former one only decrypts', async (t) => {
  const former = box.encrypt('secret', ID)
  const next = randomBytes(32)
  const rotated = createSecretBox({ current: next, previous: [randomBytes(32), current] })
  t.equal(rotated.decrypt(former, ID), 'secret')
  const text = rotated.encrypt('secret', ID)
  t.equal(createSecretBox({ current: next, previous: [] }).decrypt(text, ID), 'secret')
  t.throws(() => box.decrypt(text, ID))
})

t.test('another key with the same name is refused', async (t) => {
  const [version, , sealed] = createSecretBox({ current: randomBytes(32), previous: [] })
    .encrypt('secret', ID)
    .split('.')
  const [, keyId] = box.encrypt('secret', ID).split('.')
  t.throws(() => box.decrypt(`${version}.${keyId}.${sealed}`, ID), { message: /damaged/ })
})

t.test('every changed byte is noticed', async (t) => {
  const [version, keyId, sealed = ''] = box.encrypt('secret', ID).split('.')
  const bytes = Buffer.from(sealed, 'base64url')
  for (let index = 0; index < bytes.length; index++) {
    const changed = Buffer.from(bytes)
    changed[index] = (changed[index] ?? 0) ^ 1
    const text = `${version}.${keyId}.${changed.toString('base64url')}`
    t.throws(() => box.decrypt(text, ID), { message: /damaged/ }, `byte ${index}`)
  }
})

t.test('a text that is cut at any place is refused', async (t) => {
  const text = box.encrypt('secret', ID)
  for (let length = 0; length < text.length; length++)
    t.throws(() => box.decrypt(text.slice(0, length), ID), { message: /damaged/ }, `${length} characters`)
  for (const other of [`${text}.`, `${text}=`, text.replace('v1', 'v2'), `${text}\n`, 'secret'])
    t.throws(() => box.decrypt(other, ID), { message: /damaged/ }, other)
})
