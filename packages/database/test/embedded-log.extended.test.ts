/** The write-ahead log of the embedded database is shortened while the server runs, but not while it is copied. */
import { join } from 'node:path'
import Fastify from 'fastify'
import t from 'tap'
import embeddedDatabase from '../../http/src/database/embedded.ts'
import { runCommand } from '../../testing/helpers/command.ts'
import { testEmbedded, testFolder } from '../../testing/helpers/database.ts'
import { MAX_LOG_BYTES, readLogBytes, shortenLog } from '../src/client/embedded/checkpoint.ts'

const FILL = `insert into logged select repeat(md5(random()::text), 100) from generate_series(1, 22000)`

t.test('a checkpoint is written when the log is long', async (t) => {
  const dataDir = testFolder(t)
  const database = await testEmbedded(t, dataDir)
  await database.run('create table logged (text text)')
  // Compression would shorten the log.
  await database.run('alter table logged alter text set storage external')

  const works: (() => Promise<unknown>)[] = []
  const app = Fastify()
  app.decorate('repeat', (work) => void works.push(() => work(() => true)))
  await app.register(embeddedDatabase, { database, DATA_DIR: dataDir }).after()
  await app.ready()
  t.teardown(() => app.close())
  const [shorten] = works
  if (!shorten) throw new Error('The plugin repeats nothing')

  const before = await readLogBytes(database)
  await shorten()
  t.equal(await readLogBytes(database), before, 'a short log stays')

  await database.run(FILL)
  const length = await readLogBytes(database)
  t.ok(length > MAX_LOG_BYTES, `${length} bytes of log`)
  await shortenLog(database, () => true)
  t.ok((await readLogBytes(database)) >= length, 'not while the files are copied')
  await shorten()
  t.ok((await readLogBytes(database)) < 100_000)
  t.match(await runCommand(t, ['backup', join(testFolder(t), 'backup')], { DATA_DIR: dataDir }), { code: 0 })
})
