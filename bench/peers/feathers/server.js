/** Starts Feathers 5 as its generator sets it up (Koa, REST, Knex), without features that the workloads do not use. */
import { feathers } from '@feathersjs/feathers'
import { KnexService } from '@feathersjs/knex'
import { bodyParser, errorHandler, koa, rest } from '@feathersjs/koa'
import etag from '@koa/etag'
import knex from 'knex'
import conditionalGet from 'koa-conditional-get'
import pg from 'pg'
import { v7 as uuid } from 'uuid'

// Integers are parsed as numbers: no value exceeds 2^53.
pg.types.setTypeParser(20, Number)

const poolSize = Number(process.env.POOL_SIZE)
const Model = knex({
  client: 'pg',
  connection: process.env.DATABASE_URL,
  pool: { min: poolSize, max: poolSize },
})

const COLUMNS = {
  products: [
    'id',
    'sku',
    'name',
    'description',
    'price_amount',
    'currency',
    'stock',
    'status',
    'created_at',
    'updated_at',
  ],
  users: ['id', 'name', 'email', 'role', 'status', 'created_at', 'updated_at'],
  orders: [
    'id',
    'number',
    'user_id',
    'items',
    'shipping_address',
    'note',
    'status',
    'currency',
    'total_amount',
    'created_at',
    'updated_at',
  ],
}

const createSearchText = ({ sku, name, description }) =>
  [sku, name, description].filter(Boolean).join('\n').toLowerCase()

const app = koa(feathers())
app.use(errorHandler())
if (process.env.ETAGS === 'true') {
  app.use(conditionalGet())
  app.use(etag())
}
app.use(bodyParser())
app.configure(rest())

for (const [name, columns] of Object.entries(COLUMNS)) {
  // Without `paginate`, which would count the rows of every list.
  app.use(name, new KnexService({ Model, name, operators: ['$lt'] }))
  app.service(name).hooks({
    before: {
      all: [
        (context) => {
          const { include, ...query } = context.params.query ?? {}
          context.params.include = include
          context.params.query = { $select: columns, ...query }
        },
      ],
    },
  })
}

app.service('products').hooks({
  before: {
    create: [
      (context) => {
        context.data = { ...context.data, id: uuid(), search: createSearchText(context.data) }
      },
    ],
    patch: [
      (context) => {
        context.data = {
          ...context.data,
          revision: Model.raw('revision + 1'),
          updated_at: Model.raw('clock_timestamp()'),
        }
      },
    ],
  },
})

app.service('orders').hooks({
  after: {
    find: [
      // One query for all users; the resolvers of Feathers would run one per order.
      async ({ result, params }) => {
        if (params.include !== 'user') return
        const ids = [...new Set(result.map(({ user_id }) => user_id))]
        const users = await app.service('users').find({ query: { id: { $in: ids } } })
        const byId = new Map(users.map((user) => [user.id, user]))
        for (const order of result) order.user = byId.get(order.user_id) ?? null
      },
    ],
  },
})

await app.listen(Number(process.env.PORT), '127.0.0.1')
