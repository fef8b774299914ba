/** What another application declares is the name of the service, and the roles and codes that it knows. */
import t from 'tap'
import type { Json } from '../../../testing/helpers/app.ts'
import { declareApplication } from '../../../testing/helpers/application.ts'
import { testFolder } from '../../../testing/helpers/database.ts'
import { startModule, startServer } from '../../../testing/helpers/process.ts'

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
})
