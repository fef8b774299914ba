/** Replays: the events of a time that are sent to a webhook endpoint again. They stand under the path of their endpoint. */
import { apiError, type Violation } from '@resource-api/api/errors'
import { Nothing } from '@resource-api/api/schemas'
import { getBuiltInName } from '@resource-api/database/application'
import { webhookReplays } from '@resource-api/database/tables'
import { collection, create, defineResource, list, read } from '@resource-api/resources'
import { and, eq, isNull } from 'drizzle-orm'
import { Replay, ReplayCreate } from '../schemas/replays.ts'
import { REPLAY } from '../webhooks/kinds.ts'
import { createReplays } from '../webhooks/replay-store.ts'
import { createEndpointFinder, getPathUnderEndpoint, underEndpoint } from './webhook-endpoints.ts'

const MAX_DAYS = 30
/** Of one endpoint, so that they do not pile up. */
const MAX_OPEN = 10

/** A replay reads what has happened: otherwise one of failed deliveries would read its own. */
function checkTimes({ since, until }: { since?: string; until?: string }): Violation[] {
  const now = Date.now()
  const [from, to] = [Date.parse(since ?? ''), until === undefined ? now : Date.parse(until)]
  const refuse = (field: string, message: string): Violation[] => [{ field, message, code: 'OUT_OF_RANGE' }]
  if (to > now) return refuse('until', 'must not be in the future')
  if (from >= to)
    return refuse('since', until === undefined ? 'must be in the past' : 'must be before "until"')
  if (to - from > MAX_DAYS * 86_400_000)
    return refuse('since', `must be at most ${MAX_DAYS} days before the end`)
  return []
}

const NAME = getBuiltInName('replays')
const PATH = getPathUnderEndpoint(NAME)

const replays = collection({
  ...underEndpoint,
  name: NAME,
  table: webhookReplays,
  description: 'Events of a time that are sent to a webhook endpoint again. Kept for 30 days',
  schemas: { read: Replay, create: ReplayCreate, change: Nothing },
  lists: { sorts: ['created_at'], streams: [] },
  check: checkTimes,
})

export default defineResource(replays, async (app, resource) => {
  const rows = createReplays(app.events.resources)
  const findEndpoint = createEndpointFinder(app)
  app.get(PATH, list(resource))
  app.get(`${PATH}/:id`, read(resource))
  app.post(
    PATH,
    create(resource, async ({ store, id, body, actor }) => {
      const { endpoint_id = '', since, until: end, status } = body
      const { user_id, now } = await findEndpoint(store.connection, endpoint_id, actor)
      const isOpen = and(eq(webhookReplays.endpoint_id, endpoint_id), isNull(webhookReplays.completed_at))
      const message = `An endpoint can have at most ${MAX_OPEN} replays that are not complete`
      const open = await store.connection.$count(webhookReplays, isOpen)
      if (open >= MAX_OPEN) throw apiError('RESOURCE_CONFLICT', { message })
      const range = { endpoint_id, since, until: end ?? now, status }
      const total = await rows.count(store.connection, range)
      await app.work.enqueue(store.connection, { kind: REPLAY, key: id, payload: {} })
      return store.insert({ ...range, id, user_id, total })
    }),
  )
})
