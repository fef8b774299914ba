/** A server whose resource `events` are concerts. Run with another application: `declareApplication`. */
import '../../../src/application.ts'
import { toReads, toWrites } from '@resource-api/api/rules'
import { common as commonFields, Id, Line } from '@resource-api/api/schemas'
import { common, migrate, openDatabase, text } from '@resource-api/database'
import { readConfig } from '@resource-api/http/config'
import {
  collection,
  create,
  defineResource,
  list,
  read,
  remove,
  replace,
  update,
} from '@resource-api/resources'
import { Type } from '@sinclair/typebox'
import { index, pgTable } from 'drizzle-orm/pg-core'
import { buildApp } from '../../../src/app.ts'
import { resources } from '../../../src/resources.ts'
import { createTable } from './rows.ts'

const table = pgTable('concerts', { ...common(), title: text().notNull() }, (t) => [
  index('concerts_created_at').on(t.created_at, t.id),
])
const fields = { title: Line(200, 'The title', 'The Well-Tempered Clavier') }
const concerts = collection({
  name: 'events',
  table,
  description: 'Concerts',
  schemas: {
    read: Type.Object(
      { id: Id(), ...fields, ...commonFields },
      { title: 'Concert', description: 'A concert' },
    ),
    create: Type.Object(fields, { title: 'ConcertCreate' }),
    change: Type.Object(fields, { title: 'ConcertChange' }),
  },
  lists: { sorts: ['created_at'] },
  access: { ...toReads({ admin: true, member: true }), ...toWrites({ admin: true }) },
})
const events = defineResource(concerts, async (app, resource) => {
  app.get('/events', list(resource))
  app.get('/events/:id', read(resource))
  app.post('/events', create(resource))
  app.put('/events/:id', replace(resource))
  app.patch('/events/:id', update(resource))
  app.delete('/events/:id', remove(resource))
})

const config = readConfig()
const database = await openDatabase({ schema: 'public' })
await migrate(database)
await createTable(database, table)
const app = await buildApp(config, { database, resources: [...resources, events] })
console.log(`Ready at ${await app.listen({ port: 0, host: '127.0.0.1' })}`)
