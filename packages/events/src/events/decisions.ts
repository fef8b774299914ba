/** Decides who may read events that were read already: by their data, and by the related rows that there are now. */
import type { Actor } from '@resource-api/api/actor'
import { formatRule, hasPaths, narrowByRow, type Rule } from '@resource-api/api/rules'
import type { Connection } from '@resource-api/database'
import { listRuleColumns, listRules, type Resource } from '@resource-api/resources/internal'
import type { ReadableRules } from './readable.ts'
import type { RepresentedEvent } from './represent-event.ts'

const getEventRule = (rules: ReadableRules, { resource_type }: Pick<RepresentedEvent, 'resource_type'>) =>
  rules.get(resource_type) ?? false

type DecidedEvent = Pick<RepresentedEvent, 'resource_type' | 'columns' | 'previous'>

/** A caller with the rules for what they may read. */
export interface EventReader {
  rules: ReadableRules
  actor: Actor
}

/** Returns the part of the rule that the data of an event does not decide. */
const narrowRule = ({ rules, actor }: EventReader, event: DecidedEvent, columns: DecidedEvent['columns']) =>
  narrowByRow(getEventRule(rules, event), columns, actor)

const getFormerColumns = ({ columns, previous }: DecidedEvent) => ({ ...columns, ...previous })

/** The resources with rules over relations, by their names. */
export type RelatedResources = ReadonlyMap<string, Resource>

export const listRelated = (resources: readonly Resource[]): RelatedResources =>
  new Map(
    resources
      .filter((each) => listRules(each).some((rules) => Object.values(rules).some(hasPaths)))
      .map((each) => [each.name, each]),
  )

/** What related rows decide: for each resource, rule, row and caller. */
export class EventDecisions {
  readonly #related: RelatedResources
  readonly #known = new Map<string, boolean>()

  constructor(related: RelatedResources) {
    this.#related = related
  }

  /** Returns whether a caller may read an event: the resource after the change or, if it was deleted, as it was last. */
  canRead(reader: EventReader, event: DecidedEvent): boolean {
    return this.#permits(reader, event, event.columns)
  }

  /** Returns the event without the former values, if the caller might not read the resource before the change. */
  hideUnreadable<E extends DecidedEvent>(reader: EventReader, event: E): E {
    return event.previous === null || this.#permits(reader, event, getFormerColumns(event))
      ? event
      : { ...event, previous: {} }
  }

  /**
   * Asks the database for what the events alone do not decide: with one statement for each rule. Without rules over
   * relations there is nothing to ask.
   * @returns undefined if nothing was asked
   */
  add(
    connection: Connection,
    readers: Iterable<EventReader>,
    found: readonly DecidedEvent[],
  ): Promise<unknown> | undefined {
    const questions = new Map<string, Question>()
    const open = found.filter(({ resource_type }) => this.#related.has(resource_type))
    if (open.length === 0) return undefined
    for (const reader of readers) {
      for (const event of open) {
        this.#ask(questions, reader, event, event.columns)
        if (event.previous !== null) this.#ask(questions, reader, event, getFormerColumns(event))
      }
    }
    if (questions.size === 0) return undefined
    return Promise.all([...questions.values()].map((each) => this.#answer(connection, each)))
  }

  #permits(reader: EventReader, event: DecidedEvent, columns: DecidedEvent['columns']): boolean {
    const rule = narrowRule(reader, event, columns)
    if (typeof rule === 'boolean') return rule
    const { key, row } = this.#toKey(event, rule, columns)
    return this.#known.get(`${key}|${reader.actor.userId}|${row}`) ?? false
  }

  #getResource({ resource_type }: DecidedEvent): Resource {
    const resource = this.#related.get(resource_type)
    if (!resource) throw new Error(`There is no resource "${resource_type}"`)
    return resource
  }

  #toKey(event: DecidedEvent, rule: Rule, columns: DecidedEvent['columns']) {
    const names = listRuleColumns(this.#getResource(event), rule)
    const row = JSON.stringify(names.map((name) => columns[name]))
    return { key: `${event.resource_type}|${formatRule(rule)}`, row }
  }

  #ask(
    questions: Map<string, Question>,
    reader: EventReader,
    event: DecidedEvent,
    columns: DecidedEvent['columns'],
  ): void {
    const rule = narrowRule(reader, event, columns)
    if (typeof rule === 'boolean') return
    const { key, row } = this.#toKey(event, rule, columns)
    if (this.#known.has(`${key}|${reader.actor.userId}|${row}`)) return
    const question = questions.get(key) ?? {
      key,
      rule,
      resource: this.#getResource(event),
      rows: new Map(),
      callers: new Set(),
    }
    questions.set(key, question)
    question.rows.set(row, columns)
    question.callers.add(reader.actor.userId)
  }

  async #answer(connection: Connection, { key, rule, resource, rows, callers }: Question): Promise<void> {
    const [texts, ids] = [[...rows.keys()], [...callers]]
    const permitted = await resource.select.findPermitted(connection, rule, [...rows.values()], ids)
    for (const id of ids) for (const text of texts) this.#known.set(`${key}|${id}|${text}`, false)
    for (const { row, caller } of permitted) this.#known.set(`${key}|${ids[caller]}|${texts[row]}`, true)
  }
}

/** Which of the rows a rule permits to which of the callers. */
interface Question {
  key: string
  rule: Rule
  resource: Resource
  /** By the values of the columns on which the rule depends. */
  rows: Map<string, DecidedEvent['columns']>
  callers: Set<string>
}
