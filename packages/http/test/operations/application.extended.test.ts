/** What another application declares is the name of the service, and the roles and codes that it knows. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Json } from '../../../testing/helpers/app.ts'
import { declareApplication } from '../../../testing/helpers/application.ts'
import { testFolder } from '../../../testing/helpers/database.ts'
import { createServerSettings, startModule, startServer } from '../../../testing/helpers/process.ts'

t.setTimeout(120_000)

t.test('its name and its roles are those of the service, of documents and of the command line', async (t) => {
  const flags = declareApplication(
    "roles: ['member', 'organizer', 'admin'], staff: ['organizer'], violations: { SOLD_OUT: 'None is left' }",
  )
  const settings = {
    DATA_DIR: testFolder(t),
    ADMIN_API_KEY: 'a-key-of-more-than-thirty-two-characters',
    PORT: '0',
  }
  const created = startModule(t, 'cli.ts', settings, ['users', 'create', '--role', 'manager'], flags)
  t.equal((await created.ended).code, 2)
  t.match(created.output.err, 'Allowed choices are member, organizer, admin.')

  const { url } = await startServer(t, settings, 'server.ts', flags)
  const refused = await fetch(`${url}/api/v1/users`)
  t.equal(refused.headers.get('www-authenticate'), 'Bearer realm="tickets"')
  const create = async (role: string) => {
    const body = JSON.stringify({ name: 'Ada', email: `${role}@example.com`, role })
    const headers = { 'content-type': 'application/json', 'x-api-key': settings.ADMIN_API_KEY }
    const response = await fetch(`${url}/api/v1/users`, { method: 'POST', body, headers })
    return { status: response.status, body: await response.json() }
  }
  t.match(await create('organizer'), { status: 201, body: { data: { role: 'organizer' } } })
  const message = 'must be one of member, organizer, admin'
  t.match(await create('manager'), {
    status: 422,
    body: { error: { details: [{ field: 'role', message }] } },
  })
  const documents: Json = await (await fetch(`${url}/openapi/v1.json`)).json()
  t.equal(documents.info.title, 'tickets')
  t.same(documents.components.schemas.UserRole.enum, ['member', 'organizer', 'admin'])
  t.match(JSON.stringify(documents), '"SOLD_OUT"')
  t.notMatch(JSON.stringify(documents), /TypeScript client|x-codeSamples/, 'it names no package of a client')
})

t.test('its folder has templates of mails, which replace those of the packages', async (t) => {
  const folder = testFolder(t)
  const files = {
    'receipt.txt': 'Subject: Receipt {{number}}\n\nThank you.\n',
    'receipt.html': '<p>{{number}}</p>',
    'invitation.txt': 'Subject: Come to {{product}}\n\n{{link}}\n',
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  const flags = declareApplication(`templates: ${JSON.stringify(folder)}`)
  const settings = { DATA_DIR: testFolder(t) }
  const preview = join(testFolder(t), 'preview.txt')
  const run = async (name: string) => {
    const args = ['mail', 'preview', name, preview]
    const { ended, output } = startModule(t, 'cli.ts', settings, args, flags)
    return { code: (await ended).code, error: output.err }
  }
  t.match(await run('receipt'), { code: 0 })
  t.equal(readFileSync(preview, 'utf8'), 'Subject: Receipt [number]\n\nThank you.\n')
  t.match(await run('invitation'), { code: 0 })
  t.match(readFileSync(preview, 'utf8'), /^Subject: Come to tickets\n\nhttps:/)
  writeFileSync(join(folder, 'receipt.html'), '{{#number}}')
  t.match(await run('receipt'), { code: 1, error: `${join(folder, 'receipt.html')}: Unclosed section` })
})

t.test(
  'a folder of templates that does not exist stops the start, which names the declaration',
  async (t) => {
    const folder = join(testFolder(t), 'mails')
    const flags = declareApplication(`templates: ${JSON.stringify(folder)}`)
    const { ended, output } = startModule(t, 'server.ts', await createServerSettings(t), [], flags)
    t.equal((await ended).code, 1)
    t.equal(
      output.err.trim(),
      `The service cannot start: The application declares templates: '${folder}', but there is no folder ${folder}: create it, or copy it into the image`,
    )
  },
)

t.test('the help names a program that exists where it is read', async (t) => {
  const flags = declareApplication('')
  for (const [NODE_ENV, program] of [
    ['development', 'npx resource-api'],
    ['production', 'node dist/src/cli.js'],
  ] as const) {
    const { ended, output } = startModule(t, 'cli.ts', { NODE_ENV }, ['users', 'create', '--help'], flags)
    t.equal((await ended).code, 0)
    t.match(output.out, new RegExp(`^Usage: ${program} users create `))
  }
})
