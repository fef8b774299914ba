/** What a consumer is: its name, the types of its events, and what it does with each. */
import { type Duration, toMilliseconds } from '@resource-api/database/values'
import type { Static, TObject } from '@sinclair/typebox'
import { checkName, type OwnContext } from '../background/own-work.ts'
import { getWildcard } from '../events/filter.ts'
import { changeKinds, type createEventSchema } from '../schemas/events.ts'

type ChangeKind = (typeof changeKinds)[number]

/** `users.created`, or `users.*` for all changes of a collection. */
type EventSelector = `${string}.${ChangeKind | '*'}`

/** The types of the events that a selector stands for. */
type TypesOf<S extends EventSelector> = S extends `${infer Name}.*` ? `${Name}.${ChangeKind}` : S

type EventFields = Static<ReturnType<typeof createEventSchema>>

/** An event as the latest version of the API has it, without an envelope. */
export type ConsumedEvent<Type extends string = string, Data = Record<string, unknown>> = Type extends string
  ? Omit<EventFields, 'position' | 'type' | 'data' | 'previous'> & {
      position: number
      type: Type
      /** The resource after the change, or as it was before its deletion. */
      data: Data
      /** The former values of the fields that changed; null unless the resource was updated. */
      previous: Type extends `${string}.updated`
        ? Partial<Data>
        : string extends Type
          ? Partial<Data> | null
          : null
    }
  : never

interface ConsumerDefinition<S extends EventSelector, Schema extends TObject> {
  /** Lowercase words with hyphens, unique among the consumers. */
  name: string
  types: readonly S[]
  /** The read schema of the resource: the type of the data. */
  schema?: Schema
  /** Where it begins when it is registered for the first time. Default: `end`, with the events after it. */
  from?: 'end' | 'beginning'
  /** After which time the handling of an event has failed. Default: 1 minute. */
  timeout?: Duration
  /**
   * Handles an event: at least once, after its commit, in the order of positions.
   * @throws Error if it has failed. The same event is handled again, and no later one until then
   */
  handle(event: ConsumedEvent<TypesOf<S>, Static<Schema>>, context: OwnContext): Promise<unknown>
}

export interface Consumer {
  name: string
  types: readonly string[]
  from: 'end' | 'beginning'
  timeoutMs: number
  handle(event: ConsumedEvent, context: OwnContext): Promise<unknown>
}

/** Defines what happens after changes. The types of its events follow from `types` and `schema`. */
export function defineConsumer<const S extends EventSelector, Schema extends TObject = TObject>(
  definition: ConsumerDefinition<S, Schema>,
): Consumer
/** @throws Error with the mistake */
export function defineConsumer({
  name,
  types,
  from = 'end',
  timeout = '1m',
  handle,
}: Omit<ConsumerDefinition<EventSelector, TObject>, 'handle'> & Pick<Consumer, 'handle'>): Consumer {
  checkName('Consumer', name)
  if (types.length === 0) throw new Error(`Consumer "${name}": types is empty`)
  return { name, types, from, timeoutMs: toMilliseconds(timeout), handle }
}

/** @throws Error with all types that no event has */
export function checkTypes(consumers: readonly Consumer[], resourceTypes: readonly string[]): void {
  const known = new Set(
    resourceTypes.flatMap((type) => [getWildcard(type), ...changeKinds.map((kind) => `${type}.${kind}`)]),
  )
  const mistakes = consumers.flatMap(({ name, types }) =>
    types
      .filter((type) => !known.has(type))
      .map((type) => `Consumer "${name}": no event has the type "${type}"`),
  )
  if (mistakes.length > 0)
    throw new Error(`${mistakes.join('\n')}\nThe collections with events are ${resourceTypes.join(', ')}`)
}
