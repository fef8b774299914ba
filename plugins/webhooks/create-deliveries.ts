/** Creates deliveries in the transaction that assigns positions: none is lost, and no event has two for an endpoint. */
import type { RecordedResource } from '../events/readable.ts'
import type { BatchStep } from '../events/sequencer.ts'
import { buildOwnerCondition } from './owners.ts'

/**
 * An event that happened before its endpoint was created is not sent, although its position may be assigned later. An
 * endpoint that is being deleted is left out once it is: the lock waits for that.
 * @param resources those whose changes are events
 */
export function createDeliveryStep(resources: readonly RecordedResource[]): BatchStep {
  const statement = `insert into webhook_deliveries (endpoint_id, user_id, event_id, event_type, next_attempt_at)
    select e.id, u.id, events.id, events.type, clock_timestamp()
    from webhook_endpoints as e
    join users as u on u.id = e.user_id and u.status = 'active'
    join events on events.position > $1 and events.position <= $2 and events.created_at >= e.created_at
      and e.event_types ?| array['*', events.resource_type || '.*', events.type]
    where e.status = 'enabled' and ${buildOwnerCondition(resources, 'u')}
    for key share of e`
  return async (tx, { after, last }) => {
    await tx.run(statement, [after, last])
  }
}
