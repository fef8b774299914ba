/** Represents events: the resource after the change as a version of the API has it, and the former values of its fields. */
import { isDeepStrictEqual } from 'node:util'
import type { TSchema } from '@sinclair/typebox'
import type { events } from '../../drizzle/event-tables.ts'
import { isObject } from '../../lib/is-object.ts'
import type { Actor } from '../access/index.ts'
import type { Row } from '../collection/definition.ts'
import { buildResourceShape } from '../collection/openapi/operations.ts'
import type { Resource } from '../collection/resource.ts'
import { getTimestamps } from '../collection/response/response-builder.ts'
import { applyVersion } from '../collection/versions.ts'
import type { Entity, Representation } from '../versioning/representation/types.ts'

/** A row of `events`, without its size. */
export type EventRow = Omit<typeof events.$inferSelect, 'bytes'>

/** An event, or a test of a webhook, which has no position. */
export type RepresentedEvent = Omit<EventRow, 'position'> & { position: number | null }

/** Represents events for their readers. */
export interface EventMapper {
  /**
   * Returns the event with the resource in `columns` and its former values in `previous` as the version has them.
   * @throws Error for an event of a resource that is not registered
   */
  toRow(event: RepresentedEvent, actor: Actor, version: number, fields?: readonly string[]): Row
  /** Returns the member `data` of the response to `GET /events/{id}`. */
  toData(event: RepresentedEvent, actor: Actor, version: number, fields?: readonly string[]): unknown
}

/** Changes with every update, and says nothing of its own. */
const UNREPORTED_FIELD = 'updated_at'

/** Converts the text of a timestamp in JSON to that of a row: `2026-11-22 21:59:37.123456+00`. */
const toRowTimestamp = (text: string) => text.replace('T', ' ').replace(/([+-]\d\d):00$/, '$1')

/** Creates a function that turns columns of an event into a row of the resource. */
function createRowReader({ schemas }: Resource) {
  const timestamps = [...getTimestamps(schemas.read)]
  return (event: RepresentedEvent, columns: Readonly<Record<string, unknown>>): Row => {
    const row: Row = {
      ...columns,
      id: event.resource_id,
      revision: event.revision,
      updated_at: String(columns.updated_at),
    }
    for (const name of timestamps) {
      const value = row[name]
      if (typeof value === 'string') row[name] = toRowTimestamp(value)
    }
    return row
  }
}

/** Returns the parts of a value that its schema has, as the serializer of a response writes them. */
function pickKnown(value: unknown, { properties }: TSchema): unknown {
  if (!properties || !isObject(value)) return value
  const known = Object.entries<TSchema>(properties).filter(([name]) => name in value)
  return Object.fromEntries(known.map(([name, schema]) => [name, pickKnown(value[name], schema)]))
}

/** Creates a function that writes one resource in one version, without its envelope. */
function createWriter(resource: Resource, { version, one, schemas }: Representation) {
  const { published } = applyVersion(resource, version)
  const schema: TSchema = schemas.one(buildResourceShape(published, false)).properties.data
  return (entity: Entity): unknown => pickKnown(one(entity).data, schema)
}

/** Creates the function that represents the data of events of one resource in one version. */
function createDataMapper(resource: Resource, representation: Representation) {
  const { toEntity } = applyVersion(resource, representation.version)
  const write = createWriter(resource, representation)
  const readRow = createRowReader(resource)

  const readPrevious = (event: RepresentedEvent, { members }: Entity, actor: Actor) => {
    const { previous, columns } = event
    if (previous === null) return null
    const former = toEntity(readRow(event, { ...columns, ...previous }), actor).members
    return Object.fromEntries(
      Object.entries(former).filter(
        ([name, value]) => name !== UNREPORTED_FIELD && !isDeepStrictEqual(value, members[name]),
      ),
    )
  }

  return (event: RepresentedEvent, actor: Actor) => {
    const entity = toEntity(readRow(event, event.columns), actor)
    // Before the representation, which may add to the members.
    const previous = readPrevious(event, entity, actor)
    return { data: write(entity), previous }
  }
}

/**
 * Creates the functions that represent events, of all resources in all versions.
 * @param resource that of events
 * @param resources those whose changes are recorded
 */
export function createEventMapper(
  resource: Resource,
  resources: readonly Resource[],
  representations: readonly Representation[],
): EventMapper {
  const writers = new Map(representations.map((each) => [each.version, createWriter(resource, each)]))
  const mappers = new Map(
    resources.flatMap((recorded) =>
      representations.map(
        (each) => [`${each.version} ${recorded.name}`, createDataMapper(recorded, each)] as const,
      ),
    ),
  )

  const mapData = (event: RepresentedEvent, actor: Actor, version: number) => {
    const map = mappers.get(`${version} ${event.resource_type}`)
    if (!map) throw new Error(`There is no resource "${event.resource_type}" in version ${version}`)
    return map(event, actor)
  }

  const toRow: EventMapper['toRow'] = (event, actor, version, fields) => {
    const hasData = !fields || fields.includes('data') || fields.includes('previous')
    if (!hasData) return event
    const { data, previous } = mapData(event, actor, version)
    return { ...event, columns: data, previous }
  }

  return {
    toRow,
    toData(event, actor, version, fields) {
      const write = writers.get(version)
      if (!write) throw new Error(`There is no version ${version}`)
      return write(resource.toEntity(toRow(event, actor, version, fields), actor, fields))
    },
  }
}
