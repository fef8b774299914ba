/**
 * A clinic is built on a fresh clone as docs/adding-a-resource.md and docs/teams.md say: the shop removed, the product
 * renamed, a fourth role, an error code of its own, resources with every type of field, rules, an operation, a job, a
 * consumer that sends mails, and a report. Then a newer product is merged. The files that its authors write are in
 * `test/once/clinic`; its own tests there try the server, and the resources of docs/teams.md.
 */
import { appendFileSync, cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createEmptyDatabase } from '../helpers/command.ts'
import { testFolder } from '../helpers/database.ts'
import {
  clone,
  cloneProduct,
  commitAll,
  getTestArguments,
  git,
  linkPackages,
  root,
  runIn,
  shopOptions,
} from './git-clone.ts'

t.setTimeout(1_800_000)

const folder = testFolder(t)
const [product, clinic] = [join(folder, 'product'), join(folder, 'clinic-api')]
const { DATABASE_URL } = process.env
// The scripts and the tests of resources run on PGlite: a server would keep a template database of each migration.
delete process.env.DATABASE_URL

const RESOURCES: Record<string, string[]> = {
  patients: [
    ...['--fields', 'name:text(1..100), born_on:date?, email:email?'],
    ...['--owner', 'user_id:reads', '--unique', 'user_id'],
  ],
  practitioners: [
    ...['--fields', 'name:text(1..100), specialty:enum(general|dental|physio), is_accepting:boolean=true'],
    ...['--owner', 'user_id:reads', '--visible', 'is_accepting=true', '--unique', 'user_id'],
  ],
  rooms: ['--fields', 'name:text(1..50), floor:integer(0..9)', '--visible', 'all', '--unique', 'name'],
  appointments: [
    '--fields',
    `patient_id:ref(patients)!, practitioner_id:ref(practitioners)!, room_id:ref(rooms), starts_at:timestamp,
      ends_at:timestamp, price_amount:decimal(10,2)=0.00, note:multiline(0..2000)?`,
    ...['--owner', 'user_id:writes', '--operations', 'confirm'],
    ...['--states', 'requested>confirmed,canceled!; confirmed>done!,canceled'],
  ],
  invoices: [
    ...[
      '--fields',
      'appointment_id:ref(appointments)!, number:text(1..20)!, amount:decimal(10,2), due_on:date?',
    ],
    ...['--owner', 'user_id:reads(status=issued,paid)', '--on-delete', 'restrict', '--unique', 'number'],
    ...['--states', 'draft>issued,canceled!; issued>paid!,canceled'],
  ],
  // Every type of field, as a required field, with a default, or nullable.
  devices: [
    '--fields',
    `label:text(1..50), note:multiline?, tags:texts(0..5)=[], codes:texts(1..3), amount:decimal(10,2),
      rate:decimal(5,4)?, count:integer(0..9), price:money, is_open:boolean, day:date, opens:time,
      closes:time=18:00:00, begins_at:timestamp, size:enum(small|large)=small, contact:email, site:url?, code:uuid,
      room_id:ref(rooms)?`,
    ...['--owner', 'user_id:reads', '--on-delete', 'cascade', '--unique', 'code'],
    ...['--states', 'draft>active>done!; active>draft', '--visible', 'status=active,done; is_open=false'],
    ...['--sorts', 'amount,rate,count,opens,begins_at'],
    ...['--filters', 'user_id,status,is_open,amount,opens,code'],
  ],
}
/** The resources of docs/teams.md. */
const OF_TEAMS = ['organizations', 'memberships', 'projects', 'invitations']

/** Runs a command in the clinic, and comments the seconds that it has taken. */
function run(t: Test, command: string, ...args: string[]): string {
  const start = Date.now()
  const { code, output } = runIn(clinic, command, ...args)
  const line = [command, ...args].join(' ').replace(/\s+/g, ' ')
  t.equal(code, 0, `${line}: ${((Date.now() - start) / 1000).toFixed(1)} s${code === 0 ? '' : `\n${output}`}`)
  return output
}
const npm = (t: Test, script: string, ...args: string[]) =>
  run(t, 'npm', 'run', '--silent', script, '--', ...args)

const read = (path: string) => readFileSync(join(clinic, path), 'utf8')

/** Checks that a command of the clinic fails with a message, and that no file has changed. */
function checkRefusal(t: Test, code: number, message: string, ...args: string[]): void {
  const before = git(clinic, 'status', '--porcelain')
  const { output, ...refused } = runIn(clinic, 'npm', 'run', '--silent', 'new', '--', ...args)
  t.equal(refused.code, code, output)
  t.match(output, message)
  t.equal(git(clinic, 'status', '--porcelain'), before, message)
}

/** Replaces texts of a file that are in it. */
function edit(project: string, path: string, ...changes: [before: string, after: string][]): void {
  let text = readFileSync(join(project, path), 'utf8')
  for (const [before, after] of changes) {
    if (!text.includes(before)) throw new Error(`${path} does not have: ${before}`)
    text = text.replace(before, () => after)
  }
  writeFileSync(join(project, path), text)
}

/** Writes what the clinic's authors write by hand. */
function writeRules(t: Test): void {
  edit(clinic, 'schemas/own-codes.ts', [
    '= {',
    "= {\n  OVERLAP: 'Another appointment has the room or the practitioner at this time',\n",
  ])
  edit(
    clinic,
    'schemas/appointments.ts',
    ['const fields = {', "const practitionerUser = Id('The user of the practitioner')\n\nconst fields = {"],
    [
      '...immutable, ...fields, ...common',
      '...immutable, practitioner_user_id: practitionerUser, ...fields, ...common',
    ],
    ["    user_id: Type.Optional({ ...owner, description: 'The user; by default the caller' }),\n", ''],
  )
  edit(
    clinic,
    'drizzle/tables/appointments.ts',
    [
      '    room_id: uuid()',
      '    practitioner_user_id: uuid()\n      .notNull()\n      .references(() => users.id),\n    room_id: uuid()',
    ],
    [
      "    index('appointments_room_id')",
      "    index('appointments_practitioner_user_id').on(t.practitioner_user_id, t.created_at, t.id),\n    index('appointments_room_id')",
    ],
  )
  npm(t, 'migrations', '--name', 'appointments-practitioner-user')
  npm(t, 'migrations', '--custom', '--name', 'appointments-overlap')
  const migrations = join(clinic, 'drizzle/own-migrations')
  const overlap = readdirSync(migrations).find((name) => name.endsWith('_appointments-overlap.sql'))
  cpSync(join(root, 'test/once/clinic/overlap.sql'), join(migrations, String(overlap)))

  for (const name of ['plugins', 'src', 'test'])
    cpSync(join(root, 'test/once/clinic', name), join(clinic, name), { recursive: true })
  // Practitioners are a role of their own.
  for (const name of ['patients', 'practitioners', 'rooms'])
    edit(clinic, `plugins/resources/${name}.ts`, [
      `const readable = defineRules(${name}, {`,
      `const readable = defineRules(${name}, { practitioner: true,`,
    ])
  edit(
    clinic,
    'src/own.ts',
    [
      'import { defineOwn }',
      `import { appointmentMails } from '../plugins/resources/appointment-mails.ts'
import { reports } from '../plugins/resources/reports.ts'
import { cancelUnconfirmed } from '../plugins/resources/unconfirmed-appointments.ts'
import { defineOwn }`,
    ],
    ['\n})', '\n  routes: [reports],\n  jobs: [cancelUnconfirmed],\n  consumers: [appointmentMails],\n})'],
  )

  // The generated tests follow the rules.
  edit(
    clinic,
    'test/resources/appointments.test.ts',
    [
      't.equal((await other.post(path, await newBody(userId))).status, 403)',
      "t.same(getViolations(await other.post(path, await newBody(userId))), ['patient_id NOT_FOUND'])",
    ],
    ['id}`)).status, 204)', 'id}`)).status, 403)'],
    ['members change and delete only their own appointments', 'members change only their own appointments'],
  )
}

/** Runs tests of the clinic, with the project's own resources. */
function runTests(t: Test, names: readonly string[], url?: string): void {
  const env = url === undefined ? [] : [`DATABASE_URL=${url}`]
  const { code, output } = runIn(clinic, 'env', ...env, process.execPath, ...getTestArguments(names))
  const failures = output
    .split('\n')
    .flatMap((line) => (/not ok|Error/.test(line) ? [line.slice(0, 300)] : []))
  const database = url === undefined ? 'PGlite' : 'PostgreSQL'
  t.equal(code, 0, `${names.join()} on ${database}\n${failures.slice(0, 20).join('\n')}`)
  // Each file is followed by a test that closes what it opened.
  const closed = output.match(/^ *ok \d+ - resources\/.* closes what it opened/gm) ?? []
  t.equal(closed.length, names.length)
}

const databases = [
  await createEmptyDatabase(t, ''),
  ...(DATABASE_URL === undefined ? [] : [await createEmptyDatabase(t, DATABASE_URL)]),
]

const toEnv = (settings: NodeJS.ProcessEnv = {}) =>
  Object.entries(settings).map(([name, value]) => `${name}=${value}`)

/** Applies the migrations to the databases of the clinic. */
function migrate(t: Test): void {
  for (const settings of databases)
    run(t, 'env', ...toEnv(settings), process.execPath, 'dist/src/cli.js', 'migrate')
}

t.test('a clinic is built on a clone, and gets a newer product', shopOptions, async (t) => {
  cloneProduct(product)
  clone(product, clinic)
  for (const project of [product, clinic]) linkPackages(project)

  t.test('the shop is removed, the product has another name and a fourth role', (t) => {
    npm(t, 'remove', 'orders', 'posts', 'products')
    commitAll(clinic, 'Without the shop')
    npm(t, 'rename', 'clinic-api')
    npm(t, 'format')
    edit(clinic, 'schemas/roles.ts', ["['member', ", "['member', 'practitioner', "])
    commitAll(clinic, 'The name and a role')
    t.end()
  })

  t.test('a step that fails leaves all files as they were', (t) => {
    const manifest = read('package.json')
    edit(clinic, 'package.json', ['"docs": "', '"docs": "exit 3; '])
    checkRefusal(t, 1, 'All files are as they were before.', 'rooms', ...(RESOURCES.rooms ?? []))
    writeFileSync(join(clinic, 'package.json'), manifest)
    t.end()
  })

  t.test('resources, fields, the rules, the report, the job and the mails are written', (t) => {
    for (const [name, args] of Object.entries(RESOURCES)) npm(t, 'new', name, ...args)
    for (const field of [
      'patients.phone:text(3..30)',
      'devices.serial:text(1..20)!',
      'devices.spare_room_id:ref(rooms)!',
    ])
      npm(t, 'new', '--field', field)
    checkRefusal(t, 2, 'patients has a field "phone" already', '--field', 'patients.phone:text')
    checkRefusal(t, 2, 'There is a resource "rooms" already', 'rooms', '--fields', 'name:text')
    writeRules(t)
    const blocks = [...read('docs/teams.md').matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block = '']) => block)
    t.equal(blocks.length, 4)
    for (const block of blocks) run(t, 'bash', '-euc', block)
    run(t, process.execPath, 'node_modules/@biomejs/biome/bin/biome', 'check', '--write', '.')
    npm(t, 'docs')
    t.match(
      read('docs/permissions.md'),
      '| Resource | Operation | member | practitioner | manager | admin |\n',
      'the permissions have the fourth role',
    )
    t.match(read('client/src/openapi.ts'), 'UserRole: "member" | "practitioner" | "manager" | "admin"')
    t.match(read('client/src/openapi.ts'), '"OVERLAP"')
    t.match(read('docs/error-codes.md'), '| `OVERLAP` | Another appointment has')
    t.end()
  })

  t.test('it builds, and its tests are green', (t) => {
    npm(t, 'typecheck')
    npm(t, 'lint')
    npm(t, 'build')
    runTests(t, [
      'clinic',
      'teams',
      ...Object.keys(RESOURCES),
      ...OF_TEAMS,
      'access-matrix',
      'documented-access',
      'row-access',
      'request-examples',
      'generated-files',
    ])
    if (DATABASE_URL !== undefined) runTests(t, ['clinic'], DATABASE_URL)
    migrate(t)
    const cli = ['env', ...toEnv(databases[0]), process.execPath, 'dist/src/cli.js'] as const
    t.match(run(t, ...cli, 'seed', '--users', '20'), /20 devices/)
    t.match(run(t, ...cli, 'users', 'create', '--help'), '"practitioner"')
    commitAll(clinic, 'The clinic')
    t.end()
  })

  t.test('a newer product is merged without a conflict, and the clinic starts on its database', (t) => {
    edit(product, 'schemas/roles.ts', ['/** The roles of users.', '/** All roles of users.'])
    edit(product, 'plugins/resources/users.ts', ["description: '", "description: 'Newer: "])
    appendFileSync(join(product, 'README.md'), '\nA newer product.\n')
    t.equal(runIn(product, 'npm', 'run', '--silent', 'docs').code, 0)
    const { code, output } = runIn(
      product,
      ...(['npm', 'run', '--silent', 'migrations:product', '--', '--custom', '--name', 'newer'] as const),
    )
    t.equal(code, 0, output)
    const migrations = join(product, 'drizzle/migrations')
    const newer = readdirSync(migrations).find((name) => name.endsWith('_newer.sql')) ?? ''
    writeFileSync(join(migrations, newer), 'CREATE TABLE newer (id uuid PRIMARY KEY);\n')
    commitAll(product, 'A newer product')

    const own = read('src/own.ts')
    npm(t, 'upgrade', 'origin/main')
    npm(t, 'docs')
    t.match(npm(t, 'migrations', '--name', 'upgrade'), 'No schema changes')
    npm(t, 'build')
    commitAll(clinic, 'Generated files')
    t.equal(read('src/own.ts'), own)
    t.match(read('schemas/roles.ts'), /All roles of users[\s\S]*'practitioner'/)
    t.match(read('docs/openapi/v1.json'), 'Newer: ')
    t.equal(git(clinic, 'merge-base', 'HEAD', 'origin/main'), git(product, 'rev-parse', 'main'))
    migrate(t)
    runTests(t, ['clinic', 'generated-files'])
    if (DATABASE_URL !== undefined) runTests(t, ['clinic'], DATABASE_URL)
    t.end()
  })
})
