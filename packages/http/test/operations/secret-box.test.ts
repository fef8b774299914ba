/** Secrets of endpoints are encrypted for one endpoint, and no key, damage or other endpoint reveals them. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { createSecretBox } from '../../src/config/secret-box.ts'

const ID = '0197a3b2-0000-7000-8000-000000000001'
const OTHER_ID = '0197a3b2-0000-7000-8000-000000000002'
const current = randomBytes(32)
const box = createSecretBox({ current, previous: [] })
const text = box.encrypt('secret', ID)
const [version, keyId = '', sealed = ''] = text.split('.')

t.test('a secret is read back, in a text with a nonce of its own that does not contain it', async (t) => {
  for (const plain of ['secret', '', 'Zoë 🦊']) t.equal(box.decrypt(box.encrypt(plain, ID), ID), plain)
  t.match(text, /^v1\.[0-9a-f]{8}\.[A-Za-z0-9_-]+$/)
  t.notOk(Buffer.from(sealed, 'base64url').includes('secret'))
  t.equal(new Set(Array.from({ length: 100 }, () => box.encrypt('secret', ID))).size, 100)
})

t.test('after a change of the key, the former one only decrypts', async (t) => {
  const next = randomBytes(32)
  const rotated = createSecretBox({ current: next, previous: [randomBytes(32), current] })
  t.equal(rotated.decrypt(text, ID), 'secret')
  const renewed = rotated.encrypt('secret', ID)
  t.equal(createSecretBox({ current: next, previous: [] }).decrypt(renewed, ID), 'secret')
  const [, nextId] = renewed.split('.')
  t.throws(() => box.decrypt(renewed, ID), {
    message: new RegExp(`${ID}.*key ${nextId}.*APP_SECRET_PREVIOUS`),
  })
})

t.test('a text of another endpoint or key, and one that was changed or cut, is refused', async (t) => {
  t.throws(() => box.decrypt(text, OTHER_ID), { message: /damaged or belongs to another one/ })
  const [, , foreign] = createSecretBox({ current: randomBytes(32), previous: [] })
    .encrypt('secret', ID)
    .split('.')
  const refused = [`${text}.`, `${text}=`, text.replace('v1', 'v2'), `${text}\n`, 'secret']
  refused.push(`${version}.${keyId}.${foreign}`)
  for (let length = 0; length < text.length; length++) refused.push(text.slice(0, length))
  const bytes = Buffer.from(sealed, 'base64url')
  for (const [index, byte] of bytes.entries()) {
    const changed = Buffer.from(bytes)
    changed[index] = byte ^ 1
    refused.push(`${version}.${keyId}.${changed.toString('base64url')}`)
  }
  for (const each of refused) t.throws(() => box.decrypt(each, ID), { message: /damaged/ }, each)
})
