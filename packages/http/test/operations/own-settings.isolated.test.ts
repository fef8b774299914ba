/** A project's own settings are read, checked and described as those of the product. */

import './own-settings.ts'
import t from 'tap'
import { updateEnvExample } from '../../../../scripts/env-example.ts'
import { defineConsumer } from '../../../events/src/consumers/definition.ts'
import { defineJob } from '../../../events/src/jobs/definition.ts'
import { testApp } from '../../../testing/helpers/app.ts'
import { declareApplication } from '../../../testing/helpers/application.ts'
import { runCommand } from '../../../testing/helpers/command.ts'
import { testFolder } from '../../../testing/helpers/database.ts'
import { insertEvent } from '../../../testing/helpers/events.ts'
import { SHORT_RUN, startModule } from '../../../testing/helpers/process.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { settingsTable } from '../../src/config/describe-settings.ts'
import { ConfigError, readConfig } from '../../src/config/read-config.ts'

const SECRET_URL = 'https://user:hunter2@mail.example.com'
const production = {
  NODE_ENV: 'production',
  APP_SECRET: 'a secret of more than thirty-two characters',
  INSECURE_HTTP: 'true',
}

/** The text of each type in the environment, its value, and the default. */
const SETTINGS: Record<string, [text: string, value: unknown, byDefault?: unknown]> = {
  CLINIC_MAIL_FROM: ['desk@example.com', 'desk@example.com', 'clinic@example.com'],
  CLINIC_MAIL_URL: [SECRET_URL, SECRET_URL],
  CLINIC_MAIL_CODE: ['hunter2-hunter2', 'hunter2-hunter2'],
  CLINIC_ROOMS: ['R1, R2', ['R1', 'R2'], []],
  CLINIC_IS_OPEN: ['true', true, false],
  CLINIC_S3_PARTS: ['8', 8, 4],
  CLINIC_PATIENTS: ['1000000000', 1_000_000_000, 500],
  CLINIC_LANGUAGE: ['de', 'de', 'en'],
  WAREHOUSE_URL: ['https://warehouse.example.com', 'https://warehouse.example.com', 'http://localhost:8080'],
}
const pick = <T>(get: (setting: [text: string, value: unknown, byDefault?: unknown]) => T) =>
  Object.fromEntries(Object.entries(SETTINGS).map(([name, setting]) => [name, get(setting)]))
const env = pick(([text]) => text)
const values = pick(([, value]) => value)
const { CLINIC_MAIL_URL: _, CLINIC_MAIL_CODE: __, ...defaults } = pick(([, , byDefault]) => byDefault)

t.test('own settings have their types and their defaults', async (t) => {
  t.match(readConfig(env), values)
  t.match(readConfig({}), defaults)
  t.notOk('CLINIC_MAIL_URL' in readConfig({ CLINIC_MAIL_URL: '' }))
  t.match(readConfig(production), { ...defaults, CLINIC_S3_PARTS: 6 }, 'the default of production')
})

/** Values that are refused, and why. */
const WRONG = {
  PORT: ['x', 'must be an integer from 0 to 65535, not "x"'],
  CLINIC_MAIL_FROM: ['hunter2', 'must be an email address in ASCII'],
  CLINIC_MAIL_URL: ['hunter2', 'must be an http:// or https:// URL'],
  CLINIC_MAIL_CODE: ['hunter2', 'must be 8 characters or more'],
  CLINIC_ROOMS: ['R1,R', 'must be a comma-separated list, each 2 characters or more'],
  CLINIC_IS_OPEN: ['yes', 'must be true or false, not "yes"'],
  CLINIC_S3_PARTS: ['9', 'must be an integer from 1 to 8, not "9"'],
  CLINIC_PATIENTS: ['0', 'must be an integer from 1 to 1000000000, not "0"'],
  CLINIC_LANGUAGE: ['fr', 'must be one of en, de, not "fr"'],
}
const wrong = Object.fromEntries(Object.entries(WRONG).map(([name, [value]]) => [name, value]))
const problems = Object.entries(WRONG).map(([name, [, problem]]) => `${name} ${problem}`)

t.test('their mistakes are reported with those of the product, without secrets', async (t) => {
  t.throws(() => readConfig(wrong), new ConfigError(problems))
  const doctor = await runCommand(t, 'doctor --json', wrong)
  t.equal(doctor.code, 1)
  const findings: { check: string; message: string }[] = JSON.parse(doctor.out)
  t.same(
    findings.flatMap(({ check, message }) => (check === 'settings' ? [message] : [])),
    problems,
  )
  const served = { ...production, TRUST_PROXY: '1', CLINIC_MAIL_URL: 'https://u:TRIALpassword@example.com' }
  const advice = 'contains a secret of compose.yaml or compose.citus.yaml, which are public: set your own'
  t.throws(() => readConfig(served), new ConfigError([`CLINIC_MAIL_URL ${advice}`]))
})

t.test('app.settings, jobs and consumers have them, and no log line has a secret', async (t) => {
  const seen: unknown[] = []
  const own = {
    jobs: [defineJob({ name: 'report', every: '1h', run: async ({ settings }) => seen.push(settings) })],
    consumers: [
      defineConsumer({
        name: 'mails',
        types: ['users.created'],
        from: 'beginning',
        handle: async (_event, { settings }) => seen.push(settings),
      }),
    ],
  }
  let time = Date.now()
  const lines: string[] = []
  const logs = { write: (line: string) => lines.push(line) }
  const { app, database } = await testApp(t, { ...env, LOG_LEVEL: 'trace' }, { own, now: () => time, logs })
  t.strictSame(app.settings, values, 'and no setting of the product')
  await insertEvent(database, { type: 'users.created', columns: { name: 'Ada' } })
  await app.events.assignAll()
  time += 3_600_000
  app.jobs?.wake()
  await waitUntil(() => new Set(seen).size === 1 && seen.length >= 2)
  t.equal(seen[0], app.settings)
  app.log.info({ settings: app.settings }, 'ready')
  t.notMatch(lines.join(''), /hunter2/)
})

t.test('the table of docs/operators/settings.md and .env.example list them', async (t) => {
  const table = settingsTable()
  t.match(table, '| `CLINIC_S3_PARTS` | `4`; production `6` | The number of parts of an upload. |')
  t.match(table, '| `CLINIC_ROOMS` |  | The rooms. Separated by commas. |')
  const example = updateEnvExample('')
  t.match(example, '\n# CLINIC_S3_PARTS=4\n')
  t.equal(updateEnvExample(example), example, 'each is listed once')
})

t.test('an own setting with the name of a setting of the packages stops the start', async (t) => {
  const flags = declareApplication(
    "settings: { PORT: {}, MIGRATE: {}, smtpUrl: {}, SMTP_URL: { default: '' } }",
  )
  const advice = 'choose another name in src/application.ts'
  for (const [file, args] of [
    ['server.ts', []],
    ['cli.ts', ['jobs', 'list']],
  ] as const) {
    const { output, ended } = startModule(t, file, { DATA_DIR: testFolder(t) }, args, [
      ...SHORT_RUN,
      ...flags,
    ])
    t.match([await ended, output.err], [{ code: 1 }, /./])
    for (const text of [
      `  PORT is a setting of the product: ${advice}\n`,
      `  MIGRATE is a setting of the product: ${advice}\n`,
      `  smtpUrl must have only capital letters, digits and underscores: ${advice}\n`,
    ])
      t.match(output.err, text)
    t.notMatch(output.err, 'SMTP_URL')
  }
})
