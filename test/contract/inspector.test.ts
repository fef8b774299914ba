/** The command line of the MCP Inspector lists the tools, finds no error in their schemas, and calls them. */
import t from 'tap'
import type { Json } from '../helpers/app.ts'
import { ADMIN, startFreshServer } from './documents.ts'
import { runTool } from './run-tool.ts'

/** The texts that follow or precede the JSON are no part of the result. */
const parse = (output: string): Json =>
  JSON.parse(output.slice(output.indexOf('{'), output.lastIndexOf('\n}') + 2))

t.test('the inspector uses the tools', async (t) => {
  const baseUrl = await startFreshServer(t, { MCP: 'true' })
  const inspect = (key: string, ...args: readonly string[]) =>
    runTool('mcp-inspector', [
      ...['--cli', `${baseUrl}/mcp`, '--transport', 'http', '--header', `X-API-Key:${key}`],
      ...args,
    ])
  const call = (name: string, ...args: readonly string[]) =>
    inspect(
      ADMIN.key,
      '--method',
      'tools/call',
      '--tool-name',
      name,
      ...args.flatMap((arg) => ['--tool-arg', arg]),
    )

  const list = await inspect(ADMIN.key, '--method', 'tools/list', '--strict')
  t.equal(list.code, 0, list.output)
  t.match(list.output, /Schema portability: 0 errors|: 0 errors,|0 errors, \d+ warnings/)
  t.ok(parse(list.output).tools.some(({ name }: Json) => name === 'users_list'))

  const users = await call('users_list', 'limit=1')
  t.equal(users.code, 0, users.output)
  t.match(parse(users.output).structuredContent.data, [{ email: ADMIN.email }])
  const created = await call('user_profiles_create', 'display_name=Ada')
  t.match(parse(created.output).structuredContent.data, { display_name: 'Ada' })
  const missing = await call('users_get', 'id=missing')
  t.match(parse(missing.output), { isError: true })
  t.match(missing.output, 'RESOURCE_NOT_FOUND')
  t.not((await inspect('wrong', '--method', 'tools/list')).code, 0)
})
