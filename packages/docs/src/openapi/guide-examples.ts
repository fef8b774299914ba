/** Chooses the collection and the operations from which the guide has its examples. */
import type { Operation, Parameter } from '@resource-api/http/internal'
import { listExampleIdFields, type SampleContext } from './code-samples.ts'

export interface GuideOptions extends SampleContext {
  /** How the version represents resources and errors. */
  about: string
  /** Whether changes are events, which a setting turns off. */
  hasEvents: boolean
  /** The operations of the version, of which the guide shows some. */
  operations: readonly Operation[]
  /** Whether the service has tools for agents. */
  hasAgents?: boolean
  /** Who may access what, in Markdown. */
  accessTables?: string
}

/** Returns a block of code in Markdown. */
export const writeBlock = (language: string, text: string) => `\`\`\`${language}\n${text}\n\`\`\``

/** The operations of the collection that the guide has its examples from, with parameters of its list. */
export interface GuideExamples {
  /** The name of the collection. */
  name: string
  list: Operation
  create: Operation
  update: Operation
  /** A parameter with a few values, such as `status`. */
  filter: Parameter
  /** A parameter with a lower limit, such as `price_amount_min`. */
  minimum: Parameter | undefined
  /** The fields of the resource, without the id. */
  fields: readonly string[]
}

export const findParameter = ({ parameters }: Operation, name: string) =>
  parameters.find((each) => each.name === name)

/** Returns the examples of a collection that has what the guide shows, and whose body refers to no other resource. */
function readExamples(
  name: string,
  operations: readonly Operation[],
  version: number,
): GuideExamples | undefined {
  const url = `/api/v${version}/${name}`
  const find = (method: string, path: string) =>
    operations.find((operation) => operation.method === method && operation.url === path)
  const list = find('GET', url)
  const create = find('POST', url)
  const update = find('PATCH', `${url}/:id`)
  if (!list || !create || !update || listExampleIdFields(create.body).length > 0) return undefined
  const isOwn = ({ name: each }: Parameter) => !['sort', 'order', 'fields', 'include'].includes(each)
  const filter = list.parameters.find((each) => isOwn(each) && each.schema.items?.enum)
  if (!filter || !list.security.some((scheme) => 'apiKey' in scheme)) return undefined
  const fields: string[] = findParameter(list, 'fields')?.schema.items?.enum ?? []
  const minimum = list.parameters.find((each) => each.name.endsWith('_min'))
  return { name, list, create, update, filter, minimum, fields: fields.filter((field) => field !== 'id') }
}

/** Returns the examples of a collection with a range, or else those of the first one: users are always there. */
export function chooseExamples({ operations, version }: GuideOptions): GuideExamples {
  const names = [...new Set(operations.flatMap(({ tags }) => tags))]
  const all = names.flatMap((name) => readExamples(name, operations, version) ?? [])
  const chosen = all.find(({ minimum }) => minimum) ?? all[0]
  if (!chosen) throw new Error('The guide needs a collection with a filter by a few values')
  return chosen
}
