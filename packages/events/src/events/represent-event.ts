/** Represents events: the resource after the change as a version of the API has it, and the former values of its fields. */
import { isDeepStrictEqual } from 'node:util'
import type { Actor } from '@resource-api/api/actor'
import type { Entity } from '@resource-api/api/results'
import type { Representation } from '@resource-api/api/versions'
import { hasUuid, type RowId } from '@resource-api/database/key'
import type { events } from '@resource-api/database/tables'
import { isObject } from '@resource-api/database/values'
import { buildResourceShape, getTimestamps, type Resource, type Row } from '@resource-api/resources/internal'
import type { TSchema } from '@sinclair/typebox'

/** A row of `events`, without its size. */
export type EventRow = Omit<typeof events.$inferSelect, 'bytes'>

/** An event, or a test of a webhook, which has no position. */
export type RepresentedEvent = Omit<EventRow, 'position'> & { position: number | null }

export type EventMapper = ReturnType<typeof createEventMapper>

/** Returns the id in the JSON of a row. */
const toRowId = (value: unknown): RowId => (typeof value === 'number' ? value : String(value))

/** Converts the text of a timestamp in JSON to that of a row: `2026-11-22 21:59:37.123456+00`. */
const toRowTimestamp = (text: string) => text.replace('T', ' ').replace(/([+-]\d\d):00$/, '$1')

/** Returns the schema of a resource in a version, without its envelope. */
export const getDataSchema = (resource: Resource, { schemas }: Representation): TSchema =>
  schemas.one(buildResourceShape(resource, false)).properties.data

/** Returns the parts of a value that its schema has, as the serializer of a response writes them. */
function pickKnown(value: unknown, { properties }: TSchema): unknown {
  if (!properties || !isObject(value)) return value
  const known = Object.entries<TSchema>(properties).filter(([name]) => name in value)
  return Object.fromEntries(known.map(([name, schema]) => [name, pickKnown(value[name], schema)]))
}

/** Creates a function that writes one resource in one version, without its envelope. */
function createWriter(resource: Resource, representation: Representation) {
  const schema = getDataSchema(resource, representation)
  return (entity: Entity): unknown => pickKnown(representation.resource(entity), schema)
}

/** Creates the function that represents the data of events of one resource in one version. */
function createDataMapper(resource: Resource, representation: Representation) {
  const write = createWriter(resource, representation)
  const timestamps = [...getTimestamps(resource.schemas.read)]
  const { key, updated } = resource.rowParts

  const readEntity = (event: RepresentedEvent, columns: Readonly<Record<string, unknown>>, actor: Actor) => {
    const { resource_id, revision } = event
    const id = hasUuid(key) ? resource_id : toRowId(columns.id)
    const row: Row = { ...columns, id, revision }
    for (const name of timestamps) {
      const value = row[name]
      if (typeof value === 'string') row[name] = toRowTimestamp(value)
    }
    return resource.toEntity(row, actor)
  }

  return (event: RepresentedEvent, actor: Actor) => {
    const { columns, previous } = event
    const entity = readEntity(event, columns, actor)
    if (previous === null) return { data: write(entity), previous }
    // Before the representation, which may add to the members.
    const members = representation.members(entity)
    const former = representation.members(readEntity(event, { ...columns, ...previous }, actor))
    // The time changes with every update, and says nothing of its own.
    const changed = Object.entries(former).filter(
      ([name, value]) => name !== updated && !isDeepStrictEqual(value, members[name]),
    )
    return { data: write(entity), previous: Object.fromEntries(changed) }
  }
}

/**
 * Creates the functions that represent events, of all resources in all versions. They throw an Error for an event of a
 * resource that is not registered.
 * @param resource that of events
 * @param resources those whose changes are recorded
 */
export function createEventMapper(
  resource: Resource,
  resources: readonly Resource[],
  representations: readonly Representation[],
) {
  const versions = new Map(
    representations.map((each) => {
      const mappers = resources.map((recorded) => [recorded.name, createDataMapper(recorded, each)] as const)
      return [each.version, { write: createWriter(resource, each), mappers: new Map(mappers) }]
    }),
  )

  const hashed = new Set(resources.flatMap(({ name, rowParts }) => (hasUuid(rowParts.key) ? [] : [name])))
  /** Returns the event with the id that its resource has. */
  const withResourceId = (event: RepresentedEvent): RepresentedEvent =>
    hashed.has(event.resource_type) ? { ...event, resource_id: String(event.columns.id) } : event

  const getVersion = (version: number) => {
    const found = versions.get(version)
    if (!found) throw new Error(`There is no version ${version}`)
    return found
  }

  /** Returns the event with the resource in `columns` and its former values in `previous` as the version has them. */
  const toRow = (event: RepresentedEvent, actor: Actor, version: number, fields?: readonly string[]): Row => {
    const shown = withResourceId(event)
    if (fields && !fields.includes('data') && !fields.includes('previous')) return shown
    const map = getVersion(version).mappers.get(event.resource_type)
    if (!map) throw new Error(`There is no resource "${event.resource_type}" in version ${version}`)
    const { data, previous } = map(event, actor)
    return { ...shown, columns: data, previous }
  }

  return {
    toRow,

    /** Returns the member `data` of the response to `GET /events/{id}`. */
    toData: (...[event, actor, version, fields]: Parameters<typeof toRow>): unknown =>
      getVersion(version).write(resource.toEntity(toRow(event, actor, version, fields), actor, fields)),
  }
}
