/** The application secret comes from the settings, or is generated once per data folder. */
import { readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { deriveKey, loadAppSecret } from '../../../http/src/config/secrets.ts'
import { testFolder } from '../../../testing/helpers/database.ts'

test('a configured secret is used, and no file is written', async (t) => {
  const DATA_DIR = testFolder(t)
  t.equal(await loadAppSecret({ APP_SECRET: 'x'.repeat(32), DATA_DIR }), 'x'.repeat(32))
  t.same(readdirSync(DATA_DIR), [])
})

test('a missing secret is generated once, also by concurrent calls, into a file of its owner', async (t) => {
  const DATA_DIR = join(testFolder(t), 'new', 'folder')
  const secrets = await Promise.all(Array.from({ length: 20 }, () => loadAppSecret({ DATA_DIR })))
  t.equal(new Set(secrets).size, 1)
  t.same(readdirSync(DATA_DIR), ['app-secret'])
  t.equal(statSync(join(DATA_DIR, 'app-secret')).mode & 0o777, 0o600)
  writeFileSync(join(DATA_DIR, 'app-secret'), '')
  await t.rejects(loadAppSecret({ DATA_DIR }), /app-secret must hold a secret of 32 characters or more/)
})

test('each purpose has its own derived key, the same in every derivation', async (t) => {
  const key = deriveKey('secret', 'cursors')
  t.equal(key.length, 32)
  t.ok(key.equals(deriveKey('secret', 'cursors')))
  t.notOk(key.equals(deriveKey('secret', 'tokens')))
  t.notOk(key.equals(deriveKey('other', 'cursors')))
})
