/**
 * An adopter's project on a fresh clone, as docs/adopters/adding-a-resource.md builds it: a fourth role and an error code are added,
 * and resources with every type of field and those of docs/adopters/teams.md are generated.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createEmptyDatabase } from '../../packages/testing/helpers/command.ts'
import { testFolder } from '../../packages/testing/helpers/database.ts'
import { cloneProduct, commitAll, getTestArguments, git, linkPackages, runIn } from './git-clone.ts'

t.setTimeout(1_800_000)

const folder = testFolder(t)
const clinic = join(folder, 'clinic-api')
const database = await createEmptyDatabase(t)
// The scripts and the tests of resources run on PGlite: a server would keep a template database of each migration.
delete process.env.DATABASE_URL

const RESOURCES: Record<string, string[]> = {
  patients: [
    '--fields',
    'name:text(1..100), email:email?',
    '--owner',
    'user_id:reads',
    '--unique',
    'user_id',
  ],
  rooms: ['--fields', 'name:text(1..50), floor:integer(0..9)', '--visible', 'all', '--unique', 'name'],
  appointments: [
    ...['--fields', 'patient_id:ref(patients)!, room_id:ref(rooms), starts_at:timestamp'],
    ...['--owner', 'user_id:writes', '--actions', 'confirm'],
    ...['--states', 'requested>confirmed,canceled!; confirmed>done!,canceled'],
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
/** The resources of docs/adopters/teams.md. */
const OF_TEAMS = ['organizations', 'memberships', 'projects', 'invitations']

/** Runs a command in the clinic. */
function run(t: Test, command: string, ...args: string[]): string {
  const { code, output } = runIn(clinic, command, ...args)
  t.equal(code, 0, `${[command, ...args].join(' ')}${code === 0 ? '' : `\n${output}`}`)
  return output
}
const npm = (t: Test, script: string, ...args: string[]) =>
  run(t, 'npm', 'run', '--silent', script, '--', ...args)

const read = (path: string) => readFileSync(join(clinic, path), 'utf8')

/** Checks that a script fails with a message, and that no file has changed. */
function checkRefusal(t: Test, code: number, message: string, script: string, ...args: string[]): void {
  const before = git(clinic, 'status', '--porcelain')
  const { output, ...refused } = runIn(clinic, 'npm', 'run', '--silent', script, '--', ...args)
  t.equal(refused.code, code, output)
  t.match(output, message)
  t.equal(git(clinic, 'status', '--porcelain'), before, message)
}

/** Replaces a text of a file that is in it. */
function edit(path: string, before: string, after: string): void {
  const text = read(path)
  if (!text.includes(before)) throw new Error(`${path} does not have: ${before}`)
  writeFileSync(
    join(clinic, path),
    text.replace(before, () => after),
  )
}

/** Runs tests of the clinic, with the project's own resources. */
function runTests(t: Test, names: readonly string[]): void {
  const { code, output } = runIn(clinic, process.execPath, ...getTestArguments(names))
  const failures = output.split('\n').filter((line) => /not ok|Error/.test(line))
  t.equal(code, 0, `${names.join()}\n${failures.slice(0, 20).join('\n')}`)
  // Each file is followed by a test that closes what it opened.
  const closed = output.match(/^ *ok \d+ - \S+\.test\.ts closes what it opened/gm) ?? []
  t.equal(closed.length, names.length)
}

/** Runs a command of the built clinic. */
const cli = (t: Test, ...args: string[]) => {
  const settings = Object.entries(database).map(([name, value]) => `${name}=${value}`)
  return run(t, 'env', ...settings, process.execPath, 'dist/src/cli.js', ...args)
}

t.test('a clinic is built on a clone', async (t) => {
  cloneProduct(clinic)
  linkPackages(clinic)
  edit('src/application.ts', "['member', ", "['member', 'practitioner', ")
  commitAll(clinic, 'A role')

  t.test('resources and fields are generated; a step that fails leaves all files as they were', (t) => {
    const manifest = read('package.json')
    edit('package.json', '"docs": "', '"docs": "exit 3; ')
    const args = RESOURCES.rooms ?? []
    checkRefusal(t, 1, 'All files are as they were before.', 'new', 'rooms', ...args)
    writeFileSync(join(clinic, 'package.json'), manifest)
    for (const [name, args] of Object.entries(RESOURCES)) npm(t, 'new', name, ...args)
    npm(t, 'new', '--field', 'devices.spare_room_id:ref(rooms)!')
    checkRefusal(t, 2, 'There is a resource "rooms" already', 'new', 'rooms', '--fields', 'name:text')
    edit('src/application.ts', 'violations: {', "violations: { OVERLAP: 'The room is taken',")
    const blocks = [...read('docs/adopters/teams.md').matchAll(/```sh\n([\s\S]*?)```/g)].map(
      ([, block = '']) => block,
    )
    t.equal(blocks.length, 2)
    for (const block of blocks) run(t, 'bash', '-euc', block)
    run(t, process.execPath, 'node_modules/@biomejs/biome/bin/biome', 'check', '--write', '.')
    npm(t, 'docs')
    const roles = '| Resource | Operation | member | practitioner | manager | admin |\n'
    t.match(read('docs/callers/permissions.md'), roles)
    for (const text of ['"member" | "practitioner" | "manager" | "admin"', '"OVERLAP"'])
      t.match(read('packages/client/src/openapi.ts'), text)
    t.match(read('docs/callers/error-codes.md'), '| `OVERLAP` | The room is taken')
    t.end()
  })

  t.test('it builds, and its tests are green', (t) => {
    for (const script of ['typecheck', 'lint', 'build']) npm(t, script)
    const shared = ['access', 'documents']
    const tests = [...Object.keys(RESOURCES), ...OF_TEAMS, ...shared].map((name) => `test/${name}.test.ts`)
    runTests(t, [...tests, 'scripts/test/generated-files.test.ts'])
    cli(t, 'migrate')
    t.match(cli(t, 'seed', '--users', '20'), /20 devices/)
    t.end()
  })
})
