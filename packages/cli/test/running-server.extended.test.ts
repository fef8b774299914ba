/** Commands use the embedded database of a running server through the socket in its folder. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, statSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { openEmbedded } from '../../database/src/client/embedded/embedded.ts'
import { Reply, readMessages, writeMessage } from '../../database/src/client/embedded/socket.ts'
import { connectToServer } from '../../database/src/client/embedded/socket-client.ts'
import { serveDatabase } from '../../database/src/client/embedded/socket-server.ts'
import { DatabaseUnavailable, NoServer, SqlError } from '../../database/src/client/index.ts'
import { runCommand, withDatabaseAt } from '../../testing/helpers/command.ts'
import { testEmbedded, testFolder } from '../../testing/helpers/database.ts'
import { startCode, startModule, startServer, WITHOUT_LIMITS } from '../../testing/helpers/process.ts'
import { createDeferred, waitUntil } from '../../testing/helpers/time.ts'

const ADMIN_API_KEY = 'admin-key-admin-key-admin-key-admin-key'
const PASSWORD = 'a good long secret\n'
const INSERT = `insert into users (id, name, email) values (gen_random_uuid(), '', $1)`

async function createFolder(t: Test): Promise<{ dataDir: string; settings: Record<string, string> }> {
  const dataDir = testFolder(t)
  await (await testEmbedded(t, dataDir)).close()
  return { dataDir, settings: { ...WITHOUT_LIMITS, DATA_DIR: dataDir, PORT: '0', ADMIN_API_KEY } }
}

/** Serves a migrated database to commands in this process. */
async function serve(t: Test) {
  const dataDir = testFolder(t)
  const database = await testEmbedded(t, dataDir)
  const server = await serveDatabase(database, dataDir)
  t.teardown(() => server.close())
  const connectRemote = () => connectToServer(dataDir, database.schema)
  return { dataDir, database, server, connectRemote }
}

async function startApi(t: Test) {
  const { dataDir, settings } = await createFolder(t)
  const server = await startServer(t, settings)
  const headers = { 'x-api-key': ADMIN_API_KEY, 'content-type': 'application/json' }
  const request = async (method: string, path: string, body?: object) => {
    const reply = await fetch(`${server.url}/api/v1${path}`, {
      ...{ method, headers },
      ...(body && { body: JSON.stringify(body) }),
    })
    return { status: reply.status, body: JSON.parse(await reply.text()) }
  }
  const run = async (args: string, input = '') => {
    const { child, output, ended } = startModule(t, 'cli.ts', { DATA_DIR: dataDir }, args.split(' '))
    child.stdin?.end(input)
    return { ...(await ended), ...output }
  }
  return { dataDir, settings, server, request, run }
}

t.test('commands change and read the embedded database of a running server', async (t) => {
  const { dataDir, settings, server, request, run } = await startApi(t)

  // Two at the same time.
  const created = await Promise.all([
    run('users create --email ada@example.com --role admin', PASSWORD),
    run('users create --email bob@example.com', PASSWORD),
  ])
  t.match(created, [
    { code: 0, out: /^Created the admin/ },
    { code: 0, out: /^Created the member/ },
  ])
  t.match(await run('users create --email ada@example.com', PASSWORD), { code: 1, err: /23505|already/ })
  const list = await run('users list --json')
  t.equal(JSON.parse(list.out).length, 3)

  const key = (await run('api-keys create --email bob@example.com --name script')).out.trim()
  const { status } = await fetch(`${server.url}/api/v1/users/me`, { headers: { 'x-api-key': key } })
  t.not(status, 401, 'the server knows the key')

  t.equal((await request('GET', '/users?limit=100')).body.data.length, 3)
  t.match(await run('migrate'), { code: 0, out: 'The database is up to date\n' })
  const findings: { check: string; status: string }[] = JSON.parse((await run('doctor --json')).out)
  t.same(
    findings.filter((finding) => finding.status !== 'ok'),
    [],
  )

  const file = join(testFolder(t), 'backup.gz')
  t.match(await run(`backup ${file}`), { code: 0, out: /^Wrote / })
  t.match(await run(`restore ${file}`), { code: 1, err: /in use by another process.*stop the other process/ })

  server.child.kill('SIGKILL')
  await server.ended
  t.ok(existsSync(join(dataDir, 'socket')), 'the socket of a killed server is left')
  t.match(await run('users list'), { code: 0 }, 'without a server the command opens the folder')
  const again = await startServer(t, settings)
  t.match(await run('users list'), { code: 0 }, 'the next server replaces the socket')
  again.child.kill('SIGTERM')
  await again.ended
  t.notOk(existsSync(join(dataDir, 'socket')), 'a server that stops removes it')
})

t.test('a backup during writes is one snapshot, and no request fails during it', async (t) => {
  const { request, run, dataDir } = await startApi(t)
  const [first, second] = await Promise.all(
    ['a@example.com', 'b@example.com'].map(async (email) => {
      const { body } = await request('POST', '/users', { name: '0', email, password: PASSWORD.trim() })
      return String(body.data.id)
    }),
  )
  let isOver = false
  let count = 0
  const statuses = new Set<number>()
  const write = async () => {
    while (!isOver) {
      count += 1
      for (const id of [first, second])
        statuses.add((await request('PATCH', `/users/${id}`, { name: String(count) })).status)
    }
  }
  const file = join(testFolder(t), 'backup.gz')
  const writing = write()
  await waitUntil(() => count > 3)
  const before = count
  const wrote = await run(`backup ${file}`)
  isOver = true
  await writing
  t.match(wrote, { code: 0, err: '' })
  t.same([...statuses], [200])
  t.ok(count > before + 3, `${count - before} pairs were written during the backup`)
  t.notOk(existsSync(join(dataDir, 'copy', 'postgres')), 'the copy is removed')

  const target = { DATA_DIR: testFolder(t) }
  t.match(await runCommand(t, ['restore', file], target), { code: 0, out: /they are equal/ })
  const names = await withDatabaseAt(target, (database) =>
    database.run('select name from users where id = any($1::uuid[]) order by email', [
      [first ?? '', second ?? ''],
    ]),
  )
  const [a, b] = names.map(({ name }) => Number(name))
  t.ok(a !== undefined && b !== undefined && a >= before - 1 && (a === b || a === b + 1), `${a}, ${b}`)
})

t.test('a command that is killed in a transaction or a copy leaves nothing', async (t) => {
  const { dataDir, database } = await serve(t)
  const code = (work: string) => `
    import { openCopy } from './packages/database/src/client/embedded/copy.ts'
    import { connectToServer, ServerSession } from './packages/database/src/client/embedded/socket-client.ts'
    const [folder, schema] = ${JSON.stringify([dataDir, database.schema])}
    ${work}`
  const { child } = await startCode(
    t,
    code(`const database = await connectToServer(folder, schema)
      await database.transaction(async (tx) => {
        await tx.run(${JSON.stringify(INSERT)}, ['killed'])
        console.log('inserted')
        setInterval(() => tx.run('select 1'), 100)
        await new Promise(() => {})
      })`),
  )
  const waiting = database.run('select count(*) as count from users')
  child.kill('SIGKILL')
  t.same(await waiting, [{ count: 0 }], 'a request waits for the end of the transaction')

  const copying = await startCode(
    t,
    code(`await openCopy(folder, schema)
      await ServerSession.use(folder, async (session) => {
        await session.request({ kind: 'startCopy' })
        console.log('copying')
        setInterval(() => {}, 1000)
        await new Promise(() => {})
      })`),
  )
  const backup = ['backup', join(testFolder(t), 'backup.gz')]
  const refused = await runCommand(t, backup, { DATA_DIR: dataDir })
  const err = /Another command copies the database to .*: repeat this one after its end/
  t.match(refused, { code: 1, err })
  copying.child.kill('SIGKILL')
  await once(copying.child, 'exit')
  t.match(await runCommand(t, backup, { DATA_DIR: dataDir }), { code: 0 }, 'the next copy starts')
})

t.test('a transaction without statements is rolled back, so that requests do not wait for it', async (t) => {
  const { dataDir, database, server, connectRemote } = await serve(t)
  const remote = await connectRemote()
  const { promise: released, resolve: release } = createDeferred()
  const idle = remote.transaction(async (tx) => {
    await tx.run(INSERT, ['idle'])
    release()
    // The server waits at most 2 s for its connection.
    t.same(await database.run('select count(*) as count from users'), [{ count: 0 }])
    await tx.run('select 1')
  })
  await released
  await t.rejects(idle, { name: 'DatabaseUnavailable', message: /no statement for 1500 ms/ })

  await remote.transaction((tx) => tx.run(INSERT, ['kept']))
  await t.rejects(
    remote.transaction(async (tx) => {
      await tx.run(INSERT, ['lost'])
      await tx.run(INSERT, ['kept'])
    }),
    SqlError,
  )
  t.same(
    await remote.run('select email, array[1, null] as list from users where email = any($1)', [
      ['kept', 'lost'],
    ]),
    [{ email: 'kept', list: [1, null] }],
  )
  await t.rejects(remote.run('select 1 / 0'), { name: 'SqlError', code: '22012', cause: { message: /zero/ } })
  const long = 'x'.repeat(3_000_000)
  t.same(await remote.run('select $1::text as long', [long]), [{ long }])
  await t.rejects(connectToServer(dataDir, 'other'), { message: /The running server uses the schema/ })

  const inside = createDeferred()
  const interrupted = remote.transaction(async (tx) => {
    await tx.run('select 1')
    inside.resolve()
    await closed.promise
    await tx.run('select 1')
  })
  const closed = createDeferred()
  await inside.promise
  await server.close()
  closed.resolve()
  await t.rejects(interrupted, DatabaseUnavailable)
  await t.rejects(connectToServer(dataDir, database.schema), NoServer)
})

t.test('no message of a command leaves the server in a transaction or without its statements', async (t) => {
  const { dataDir, database, connectRemote } = await serve(t)
  const remote = await connectRemote()
  const outside = { name: 'SqlError', code: '25001', cause: { message: /Begin and end a transaction with/ } }
  for (const text of ['begin', 'start transaction read only']) {
    await t.rejects(remote.run(text), outside)
    await database.run(INSERT, [text])
  }
  for (const text of ['commit', 'rollback']) {
    await t.rejects(
      remote.transaction((tx) => tx.run(text)),
      { name: 'SqlError', code: '25P01' },
    )
    await remote.run(text)
  }
  t.same(await remote.run('select count(*) as count from users'), [{ count: 2 }])
  for (const text of ['discard all', 'deallocate all']) {
    await remote.run(text)
    t.same(await database.run('select count(*) as count from users'), [{ count: 2 }], text)
  }
  await t.rejects(remote.run('deallocate unknown'), { name: 'SqlError', code: '26000' })

  // A transaction that is begun and then left alone: the server waits 1.5 s for it.
  const alone = connect(join(dataDir, 'socket'))
  t.teardown(() => alone.destroy())
  writeMessage(alone, { kind: 'begin' })
  alone.resume()
  await once(alone, 'close')
  await database.run(INSERT, ['after'])
})

t.test('the server ends a connection whose message is too long', async (t) => {
  const { dataDir, database } = await serve(t)
  const socket = connect(join(dataDir, 'socket'))
  t.teardown(() => socket.destroy())
  const length = Buffer.alloc(4)
  length.writeUInt32BE(67_108_865)
  socket.write(length)
  const replies = []
  for await (const reply of readMessages(socket, Reply)) replies.push(reply)
  t.match(replies, [{ failure: { message: /has 67108865 bytes; the server accepts at most 67108864/ } }])
  t.same(await database.run('select 1 as one'), [{ one: 1 }])
})

t.test('only the owner can open the socket', async (t) => {
  const dataDir = testFolder(t)
  const database = await openEmbedded({})
  t.teardown(() => database.close())
  const server = await serveDatabase(database, dataDir)
  t.teardown(() => server.close())
  const socket = join(dataDir, 'socket')
  t.equal(statSync(socket).mode & 0o777, 0o600)
  t.equal(statSync(dataDir).mode & 0o777, 0o700)
  if (process.getuid?.() !== 0) return
  chmodSync(dataDir, 0o755)
  const connect = `require('node:net').connect(${JSON.stringify(socket)}).on('error', ({ code }) => console.log(code))`
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', connect], { uid: 65_534, cwd: '/' })
  t.equal(stdout, 'EACCES\n', 'even if the folder is open to another user')
})

t.test('a server whose folder has too long a path for a socket says so, and serves', async (t) => {
  const dataDir = join(testFolder(t), 'long'.repeat(25))
  mkdirSync(dataDir)
  const settings = { DATA_DIR: dataDir, PORT: '0' }
  const server = await startServer(t, settings)
  t.equal((await fetch(`${server.url}/readyz`)).status, 200)
  t.match(server.output.out, 'is longer than the 103 bytes that a socket may have')
  t.match(await runCommand(t, 'users list', { DATA_DIR: dataDir }), {
    code: 1,
    err: /in use by another process[\s\S]*is longer than the 103 bytes/,
  })
})
