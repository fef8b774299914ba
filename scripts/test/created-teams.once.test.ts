/** The resources of the page about teams, and those with owners, states and actions, in an application with packed packages. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { packPackages } from './created-application.ts'
import { root } from './git-clone.ts'

t.setTimeout(1_800_000)

const { createApplication, run, check } = packPackages(t)

const RESOURCES: Record<string, string[]> = {
  patients: [
    '--fields',
    'name:text(1..100), email:email?',
    '--owner',
    'user_id:reads',
    '--unique',
    'user_id',
  ],
  rooms: ['--fields', 'name:text(1..50)', '--visible', 'all', '--unique', 'name'],
  appointments: [
    ...['--fields', 'patient_id:ref(patients)!, room_id:ref(rooms), starts_at:timestamp'],
    ...['--owner', 'user_id:writes', '--actions', 'confirm'],
    ...['--states', 'requested>confirmed,canceled!; confirmed>done!,canceled'],
  ],
}

t.test('a clinic with teams has resources with owners, and its tests are green', async (t) => {
  const clinic = createApplication('clinic-api', 'none')
  const program = join(clinic, 'node_modules/create-resource-api/dist/cli.js')
  for (const [name, args] of Object.entries(RESOURCES))
    run(t, clinic, process.execPath, program, 'new', name, ...args)
  const page = readFileSync(join(root, 'docs/adopters/teams.md'), 'utf8')
  const commands = [...page.matchAll(/^npx resource-api (new (?:\\\n|.)+)$/gm)].map(
    ([, command = '']) => command,
  )
  t.equal(commands.length, 4)
  for (const command of commands) run(t, clinic, 'bash', '-euc', `${process.execPath} ${program} ${command}`)
  check(t, clinic)
})
