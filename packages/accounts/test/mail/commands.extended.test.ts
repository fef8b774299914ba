/** `mail list` and `mail preview`, and the mails of a database that is restored or copied. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { simpleParser } from 'mailparser'
import t from 'tap'
import { newId } from '../../../database/src/lib/ids.ts'
import {
  createEmptyDatabase,
  createMigratedDatabase,
  runCommand,
  withDatabaseAt,
} from '../../../testing/helpers/command.ts'
import { SERVER, testFolder } from '../../../testing/helpers/database.ts'

const INSERT = `insert into work (id, kind, payload, attempts, next_attempt_at, error, status)
  values ($1, 'mail', jsonb_build_object('template', $2::text, 'recipient', 'ada@example.com', 'token_box', 'v1.a-secret'),
    $3, $4, $5, case when $4::timestamptz is null then 'failed' else 'pending' end)`

/** Returns the settings of a database with a mail that waits and one that failed. */
async function createMails(t: Parameters<typeof createMigratedDatabase>[0]) {
  const settings = await createMigratedDatabase(t)
  await withDatabaseAt(settings, async (database) => {
    await database.run(INSERT, [newId(), 'invitation', 2, '2026-11-24T10:00:00Z', 'Error: 451 later'])
    await database.run(INSERT, [newId(), 'password-reset', 1, null, 'Error: 550 No such user'])
  })
  return settings
}

const EXPECTED = [
  { template: 'invitation', state: 'waiting', attempts: 2, next_attempt_at: '2026-11-24T10:00:00.000Z' },
  { template: 'password-reset', state: 'failed', attempts: 1, next_attempt_at: null },
]

t.test('`mail list` shows what waits and what failed, without tokens', async (t) => {
  const settings = await createMails(t)
  const json = await runCommand(t, 'mail list --json', settings)
  t.equal(json.err, '')
  t.match(JSON.parse(json.out), EXPECTED)
  const table = await runCommand(t, 'mail list', settings)
  t.equal(table.code, 0)
  t.match(table.out, /^template +recipient +state +created_at +attempts +next_attempt_at +error\n/)
  t.match(table.out, /\npassword-reset +ada@example\.com +failed .* 1 +- +Error: 550 No such user\n/)
  t.notMatch(json.out + table.out, 'a-secret')
})

t.test('`mail preview` writes a mail of the product in three formats', async (t) => {
  const folder = testFolder(t)
  const preview = async (name: string, extension: string) => {
    const file = join(folder, `${name}.${extension}`)
    const written = { code: 0, out: `Wrote ${file}\n`, err: '' }
    t.same(await runCommand(t, ['mail', 'preview', name, file]), written)
    return readFileSync(file, 'utf8')
  }
  for (const name of ['invitation', 'api-key-created']) {
    t.match(await preview(name, 'html'), /^<!doctype html>\n[\s\S]*Hello Jane Doe,/)
    t.match(await preview(name, 'txt'), /^Subject: .+\n\nHello Jane Doe,\n/)
    const mail = await simpleParser(await preview(name, 'eml'))
    t.match(mail.text, 'Hello Jane Doe,')
    t.match(mail.html, 'Hello Jane Doe,')
  }
  for (const [command, message] of [
    ['invite x.html', 'There is no template "invite"; there are account-exists, api-key-created,'],
    ['invitation x.pdf', /must end with \.html, \.txt or \.eml/],
  ] as const)
    t.match(await runCommand(t, `mail preview ${command}`), { code: 2, err: message })
})

t.test('mails that waited when a backup was written are not sent after a restore', async (t) => {
  const settings = await createMails(t)
  const file = join(testFolder(t), 'backup.gz')
  t.equal((await runCommand(t, ['backup', file], settings)).code, 0)
  const target = await createEmptyDatabase(t)
  t.match(await runCommand(t, ['restore', file], target), { code: 0, err: '' })
  const { out } = await runCommand(t, 'mail list --json', target)
  t.match(JSON.parse(out), [
    { ...EXPECTED[0], state: 'failed', next_attempt_at: null, error: /restored from a backup/ },
    { ...EXPECTED[1], error: 'Error: 550 No such user' },
  ])
})

t.test('mails that wait are copied with the database', { skip: !SERVER }, async (t) => {
  const settings = await createMails(t)
  const target = await createEmptyDatabase(t)
  t.match(await runCommand(t, ['copy', '--to', String(target.DATABASE_URL)], settings), { code: 0 })
  t.match(JSON.parse((await runCommand(t, 'mail list --json', target)).out), EXPECTED)
})
