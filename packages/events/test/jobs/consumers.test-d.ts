/** The types of the events that a consumer gets. The compiler is the test. */
import { type Static, Type } from '@sinclair/typebox'
import { defineConsumer } from '../../src/consumers/definition.ts'

const Room = Type.Object({ id: Type.String(), floor: Type.Integer() })

defineConsumer({
  name: 'rooms',
  types: ['rooms.created', 'rooms.updated'],
  schema: Room,
  async handle(event) {
    const type: 'rooms.created' | 'rooms.updated' = event.type
    const floor: number = event.data.floor
    const previous: Partial<Static<typeof Room>> | null = event.previous
    if (event.type === 'rooms.updated') return event.previous.floor
    // @ts-expect-error The schema has no such field.
    return [type, floor, previous, event.data.size]
  },
})

defineConsumer({
  name: 'all-of-rooms',
  types: ['rooms.*'],
  async handle(event) {
    const type: 'rooms.created' | 'rooms.updated' | 'rooms.deleted' = event.type
    return [type, event.data.floor]
  },
})

// @ts-expect-error There is no such kind of change.
defineConsumer({ name: 'rooms', types: ['rooms.removed'], handle: async () => {} })
