/**
 * An adopter's application, made by `npm run create` with packed packages: the shop serves everything, and a clinic gets
 * resources with every type of field, and those of a table and of a view that exist.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import t, { type Test } from 'tap'
import { packPackages, runWith } from './created-application.ts'
import { runIn } from './git-clone.ts'
import { startApplication } from './start-application.ts'

t.setTimeout(1_800_000)

const { env, createApplication, run, check } = packPackages(t)

const countLines = (application: string, folders: readonly string[]) =>
  folders
    .flatMap((each) =>
      readdirSync(join(application, each), { recursive: true, encoding: 'utf8' }).map((name) =>
        join(application, each, name),
      ),
    )
    .filter((path) => path.endsWith('.ts'))
    .reduce((sum, path) => sum + readFileSync(path, 'utf8').split('\n').length - 1, 0)

/** What a program of an application does with its client, and what the compiler refuses. */
const PROGRAM = `import { createClient, ValidationError } from './client.ts'

const client = createClient({ baseUrl: process.argv[2] ?? '', apiKey: process.env.KEY ?? '' })
const room = await client.rooms.create({ name: 'Ward', floor: 1 })
for await (const { id, name } of client.rooms.list({ fields: ['name'] }))
  if (id === room.id) console.log(name)
const refused = await client.rooms.create({ name: '', floor: 1 }).catch((error: unknown) => error)
console.log(refused instanceof ValidationError)
export const readings = (deviceId: string) => client.devices.readings(deviceId).list()
// @ts-expect-error: rooms have no such field
export const wrong = () => client.rooms.create({ title: 'Lab', floor: 1 })
// @ts-expect-error: the clinic has no products
export const missing = () => client.products
`

t.test('the shop compiles, runs with the packed packages, and its tests are green', async (t) => {
  const shop = createApplication('shop-api', 'shop')
  check(t, shop)
  const { send, stop } = await startApplication(t, shop, env)
  t.equal((await send('GET', '/readyz')).status, 200)
  t.match(await send('GET', '/api/v1/products'), { status: 401, text: '"UNAUTHORIZED"' })
  t.match(await send('GET', '/openapi/v1.json'), { status: 200, text: '"createOrder"' })
  t.match(await send('GET', '/docs/'), { status: 200, text: '<!doctype html>' })
  t.equal((await send('GET', '/docs/js/scalar.js')).status, 200)
  await stop()

  // AGENTS.md and the README name these.
  for (const path of [
    'docs/adopters/own-routes.md',
    'docs/operators/settings.md',
    'application/plugins/orders.ts',
  ])
    t.ok(existsSync(join(shop, 'node_modules/create-resource-api/dist', path)), path)

  const guides = join(shop, 'node_modules/create-resource-api/dist/docs')
  const pages = readdirSync(guides, { recursive: true, encoding: 'utf8' }).filter((name) =>
    /\.md$/.test(name),
  )
  const links = pages.flatMap((page) =>
    [...readFileSync(join(guides, page), 'utf8').matchAll(/\]\((?!https?:|mailto:|#)([^)\s#]+)/g)].map(
      ([, link = '']) => ({ page, link, path: join(guides, page, '..', link) }),
    ),
  )
  t.ok(links.length > 100, 'the links of the guides are found')
  t.same(
    links.filter(({ path }) => !existsSync(path)),
    [],
    'each of them has a target',
  )

  // The modules of the application find the migrations and each other by these paths.
  const copied = [
    ...readFileSync(join(shop, 'Dockerfile'), 'utf8').matchAll(/^COPY --from=build \/app\/(\S+) (\S+)$/gm),
  ]
  t.equal(copied.length, 5)
  for (const [line, from = '', to = ''] of copied) {
    t.ok(existsSync(join(shop, from)), `${line}: it exists after the build`)
    t.equal(posix.join('.', to === './' ? from : to), from, `${line}: its place is the same`)
  }
})

t.test('an application depends on what its files import, and on nothing else', async (t) => {
  for (const example of ['none', 'shop']) {
    const application = createApplication(`${example}-packages`, example)
    const { dependencies } = JSON.parse(readFileSync(join(application, 'package.json'), 'utf8'))
    const imported = ['src', 'plugins', 'schemas', 'drizzle']
      .flatMap((folder) =>
        readdirSync(join(application, folder), { recursive: true, encoding: 'utf8' }).map((name) =>
          join(application, folder, name),
        ),
      )
      .filter((path) => path.endsWith('.ts'))
      .flatMap((path) => [
        ...readFileSync(path, 'utf8').matchAll(/(?:from|import) ?\(?'((?:@[\w-]+\/)?[\w-]+)[^']*'/g),
      ])
      .map(([, name = '']) => name)
      .filter((name) => name !== 'node')
    // The first table imports it.
    if (example === 'none') imported.push('drizzle-orm')
    t.same(Object.keys(dependencies).sort(), [...new Set(imported)].sort(), example)
  }
})

const RESOURCES: Record<string, string[]> = {
  rooms: ['--fields', 'name:text(1..50), floor:integer(0..9)', '--visible', 'all', '--unique', 'name'],
  // Every type of field, as a required field, with a default, or nullable.
  devices: [
    '--fields',
    `label:text(1..50), note:multiline?, tags:texts(0..5)=[], codes:texts(1..3), amount:decimal(10,2),
      rate:decimal(5,4)?, count:integer(0..9), price:money, is_open:boolean, day:date, opens:time,
      closes:time=18:00:00, begins_at:timestamp, size:enum(small|large)=small, contact:email, site:url?, code:uuid,
      room_id:ref(rooms)?, uses:integer=0 readonly, serial:text readonly, inspected_at:timestamp? readonly,
      total:decimal(10,2) computed`,
    ...['--owner', 'user_id:reads', '--on-delete', 'cascade', '--unique', 'code'],
    ...['--states', 'draft>active>done!; active>draft', '--visible', 'status=active,done; is_open=false'],
    ...['--sorts', 'amount,rate,count,opens,begins_at', '--restrict', 'note:read=admin,manager'],
    ...['--filters', 'user_id,status,is_open,amount,opens,code'],
  ],
  // No field can be changed.
  readings: ['--parent', 'devices', '--fields', 'value:decimal(8,3)!, taken_at:timestamp!'],
}

/** A table of another program. */
const INVOICES = `create table invoices (
  id uuid primary key default gen_random_uuid(),
  number text not null default 'INV-' || floor(random() * 1e12)::text,
  reference varchar(40) not null,
  room_id uuid not null references rooms (id) on delete cascade,
  amount integer not null constraint amount_positive check (amount > 0 and amount <= 100000),
  currency_rate numeric(10,4),
  state text not null default 'open' check (state in ('open', 'paid')),
  paid boolean not null default false,
  due date,
  memo character varying,
  seen_at timestamp(3) with time zone,
  created_at timestamptz,
  details jsonb,
  constraint invoices_reference_key unique (reference)
)`

/** A report over the rooms. */
const ROOM_LOADS = `create view room_loads as
  select r.id as room_id, r.name, count(d.id) as devices, sum(d.amount) as amount, r.created_at, r.updated_at
  from rooms r left join devices d on d.room_id = r.id group by r.id`

t.test('a clinic gets resources, and its tests are green', async (t) => {
  const clinic = createApplication('clinic-api', 'none')
  const program = join(clinic, 'node_modules/create-resource-api/dist/cli.js')
  const resourceApi = (t: Test, ...args: string[]) => run(t, clinic, process.execPath, program, ...args)
  t.ok(countLines(clinic, ['src', 'plugins', 'drizzle']) <= 400, 'it is small')

  t.test('a step that fails leaves all files as they were', async (t) => {
    const listAll = () =>
      execFileSync('find', ['src', 'plugins', 'schemas', 'drizzle', '-type', 'f'], {
        cwd: clinic,
        encoding: 'utf8',
      })
    mkdirSync(join(clinic, 'schemas'), { recursive: true })
    const before = [listAll(), readFileSync(join(clinic, 'src/own.ts'), 'utf8')]
    const manifest = readFileSync(join(clinic, 'package.json'), 'utf8')
    writeFileSync(
      join(clinic, 'package.json'),
      manifest.replace('"migrations": "', '"migrations": "exit 3; '),
    )
    const failed = runIn(clinic, process.execPath, program, 'new', 'rooms', ...(RESOURCES.rooms ?? []))
    t.equal(failed.code, 1)
    t.match(failed.output, 'All files are as they were before.')
    t.same([listAll(), readFileSync(join(clinic, 'src/own.ts'), 'utf8')], before)
    writeFileSync(join(clinic, 'package.json'), manifest)

    for (const [args, reason] of [
      // Two constants of the schemas have the same name.
      [['rooms', '--fields', 'a1:enum(x|y), a_1:enum(x|y)'], /schemas\/rooms\.ts\(.*'roomA1Values'/],
      // The documents have a schema with the name.
      [['grants', '--fields', 'name:text'], /would not load:\n.*the name Grant/],
      [
        ['rooms', '--fields', 'name:text', '--actions', 'update'],
        /would not load:\n.*rooms\/:id\/update does not fit/,
      ],
    ] as const) {
      const refused = runIn(clinic, process.execPath, program, 'new', ...args)
      t.equal(refused.code, 1)
      t.match(refused.output, reason)
      t.match(refused.output, 'All files are as they were before.')
      t.same([listAll(), readFileSync(join(clinic, 'src/own.ts'), 'utf8')], before)
    }
  })

  t.test('without a table, there is nothing to migrate', async (t) => {
    t.match(run(t, clinic, 'npm', 'run', '--silent', 'migrations'), 'No schema changes')
  })

  t.test(
    'a mistake in another file of the application does not keep a resource from being written',
    async (t) => {
      const path = join(clinic, 'src/unfinished.ts')
      writeFileSync(path, 'export const count: number = "1"\n')
      t.match(resourceApi(t, 'new', 'arguments', '--fields', 'name:text'), 'plugins/arguments.ts')
      rmSync(path)
    },
  )

  t.test('resources with every type of field', async (t) => {
    for (const [name, args] of Object.entries(RESOURCES)) resourceApi(t, 'new', name, ...args)
  })

  t.test('a table that exists becomes a resource, and its rows stay', async (t) => {
    run(t, clinic, 'npm', 'run', '--silent', 'build')
    resourceApi(t, 'migrate')
    const execute = (statements: string) =>
      run(
        t,
        clinic,
        process.execPath,
        ...['--input-type=module', '--eval'],
        `import './dist/src/application.js'
         const { openDatabase } = await import('@resource-api/database')
         const database = await openDatabase({ schema: 'public', dataDir: 'data', poolSize: 1 })
         try { ${statements} } finally { await database.close() }`,
      )
    const room = '0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f'
    execute(`await database.run(${JSON.stringify(INVOICES)})
      await database.run("insert into rooms (id, name, floor) values ('${room}', 'Lab', 1)")
      await database.run("insert into invoices (reference, room_id, amount) values ('A-1', '${room}', 7)")`)
    t.match(resourceApi(t, 'new', 'invoices', '--from', 'public.invoices'), 'plugins/invoices.ts')
    const plugin = readFileSync(join(clinic, 'plugins/invoices.ts'), 'utf8')
    t.match(plugin, /amount_positive: \{\s+code: 'INVALID_VALUE',\s+fields: \['amount'\]/)
    t.match(plugin, 'room: { to: rooms')
    const schema = readFileSync(join(clinic, 'schemas/invoices.ts'), 'utf8')
    t.match(schema, 'amount: Integer(1, 100_000,')
    t.match(schema, /number: Text\(.*set by the server/s)
    t.match(schema, "const invoiceStateValues = ['open', 'paid'] as const")
    run(t, clinic, 'npm', 'run', '--silent', 'build')
    resourceApi(t, 'migrate')
    t.match(
      execute(
        `console.log(JSON.stringify(await database.run('select reference, revision, created_at is null as lacks from invoices')))`,
      ),
      '[{"reference":"A-1","revision":1,"lacks":false}]',
    )
    t.match(resourceApi(t, 'doctor'), /schema/i)
  })

  t.test('a view that exists becomes a resource that is only read, without a migration', async (t) => {
    const migrations = join(clinic, 'drizzle/migrations')
    const migrate = ['run', '--silent', 'migrations', '--', '--custom', '--name', 'room-loads']
    run(t, clinic, 'npm', ...migrate)
    const written = readdirSync(migrations)
    const [file = ''] = written.filter((name) => name.endsWith('_room-loads.sql'))
    writeFileSync(join(migrations, file), ROOM_LOADS)
    run(t, clinic, 'npm', 'run', '--silent', 'build')
    resourceApi(t, 'migrate')
    const output = resourceApi(
      t,
      ...['new', 'room-loads', '--from', 'public.room_loads', '--key', 'room_id', '--visible', 'all'],
      ...['--fields', 'room_id:ref(rooms), name:text(1..50), devices:integer(0..1000)'],
      ...['--sorts', 'name,devices', '--aggregates', 'devices'],
    )
    t.match(output, 'No migration was written')
    t.same(readdirSync(migrations), written)
    const plugin = readFileSync(join(clinic, 'plugins/room-loads.ts'), 'utf8')
    t.match(plugin, "unindexed: ['devices']")
    t.notMatch(plugin, /post|put|patch|delete/)
    resourceApi(t, 'new', 'beds', '--fields', 'name:text', '--parent', 'rooms')
    const [last = ''] = readdirSync(migrations).filter((name) => name.endsWith('_beds.sql'))
    t.notMatch(readFileSync(join(migrations, last), 'utf8'), /view/i)
  })

  t.test('its client has its collections, from the sources and from a running server', async (t) => {
    const output = join(clinic, 'src/client.ts')
    t.match(resourceApi(t, 'client', '--output', 'src/client.ts'), 'Wrote src/client.ts')
    writeFileSync(join(clinic, 'src/use-client.ts'), PROGRAM)
    run(t, clinic, 'npm', 'run', '--silent', 'typecheck')
    const written = readFileSync(output, 'utf8')
    const key = 'key-of-the-clinic-key-of-the-clinic-key'
    const { url, send, stop } = await startApplication(t, clinic, { ...env, ADMIN_API_KEY: key })
    resourceApi(t, 'client', '--output', 'src/client.ts', '--url', url)
    const withoutServer = (text: string) => text.replaceAll(/http:\/\/[\w.:]+/g, '')
    t.equal(withoutServer(readFileSync(output, 'utf8')), withoutServer(written))
    t.equal(
      runWith(t, clinic, { ...env, KEY: key }, process.execPath, '--import=tsx', 'src/use-client.ts', url),
      'Ward\ntrue\n',
    )

    // Its callers have no package of a client, and there is one version.
    const { text } = await send('GET', '/openapi/v1.json')
    t.notMatch(text, /resource-api\/client|x-codeSamples|TypeScript client/)
    t.equal((await send('GET', '/openapi/v2.json')).status, 404)
    await stop()
  })

  t.test('a rule that grants more than was promised fails, with its file and line', async (t) => {
    const plugin = join(clinic, 'plugins/rooms.ts')
    const text = readFileSync(plugin, 'utf8')
    t.match(resourceApi(t, 'access'), 'is what the definitions grant')
    const opened = text.replace(
      /(\n *access: \{.*)toReads\(readable\)/,
      '$1toReads({ ...readable, anonymous: true })',
    )
    writeFileSync(plugin, opened)
    const line = opened.slice(0, opened.indexOf('anonymous: true')).split('\n').length
    const { code, output } = runIn(clinic, process.execPath, program, 'access')
    t.equal(code, 1)
    t.match(output, `plugins/rooms.ts:${line}: the rules of rooms, list\n  + "anonymous": "all"\n`)
    // Without the variables of tap, which runs this test too.
    const variables = Object.entries(env).map(([key, value]) => `${key}=${value}`)
    const command = ['npm', 'run', '--silent', 'test:file', '--', 'test/access.test.ts']
    const tested = runIn(clinic, 'env', '-i', ...variables, ...command)
    t.not(tested.code, 0)
    t.match(tested.output, `plugins/rooms.ts:${line}: the rules of rooms, list`)
    writeFileSync(plugin, text)
  })

  t.test('its tests are green', async (t) => check(t, clinic))
})
