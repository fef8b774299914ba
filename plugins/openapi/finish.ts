/** What @fastify/swagger makes of the routes, made into a document that people and generators like to read. */
import { STATUS_CODES } from 'node:http'
import { isObject } from '../versioning/representation/body.ts'
import { createComponents, createHoist, type Json } from './components.ts'
import { type Header, type HeaderName, headers } from './headers.ts'
import { OPTIONAL } from './replies.ts'

export interface FinishOptions {
  /** The other media type of replies; undefined where nothing is negotiated. */
  vendorType: string | undefined
  deprecated: boolean
}

const isHeader = (name: string): name is HeaderName => name in headers

const asObject = (value: unknown): Json => (isObject(value) ? value : {})

const entriesOf = (value: unknown): [string, Json][] =>
  Object.entries(asObject(value)).map(([name, each]) => [name, asObject(each)])

const places = ['path', 'query', 'header']
const byPlace = (a: Json, b: Json) => places.indexOf(String(a.in)) - places.indexOf(String(b.in))

/** An example of what need not be sent: the page shows it, and sends it only once it is ticked. */
const unsent = (value: unknown): Json => ({ value, 'x-disabled': true })

/** Finishes the paths of one document, and collects what they share. */
export function createFinisher() {
  const schemas = createComponents('schemas')
  const responses = createComponents('responses')
  const told = createComponents('headers')
  const hoist = createHoist(schemas)

  const media = (content: unknown): Json =>
    Object.fromEntries(
      entriesOf(content).map(([type, each]) => [type, { ...each, schema: hoist(each.schema) }]),
    )

  const header = (name: string, isOptional: boolean) => {
    if (!isHeader(name)) throw new Error(`Nothing is said of the header ${name}`)
    const { required = false, ...whole }: Header = headers[name]
    return [
      name,
      isOptional && required
        ? told.refer(`${name}-Optional`, { ...whole, description: `${whole.description}; where it is known` })
        : told.refer(name, { ...headers[name] }),
    ]
  }

  const response = (status: string, { headers: names, content, ...rest }: Json, options: FinishOptions) => {
    const announced = options.deprecated ? ['Deprecation', 'Sunset', 'Link'] : []
    const inVersion = 'API-Version' in asObject(names)
    const all = new Set([...Object.keys(asObject(names)), ...(inVersion ? announced : [])])
    const shown = media(content)
    const json = asObject(shown['application/json'])
    // What Accept cannot be served as is told as JSON.
    const both = options.vendorType && status !== '406'
    const isOptional = (field: string) =>
      // A request may be refused before its version is announced as deprecated.
      (announced.includes(field) && Number(status) >= 400) ||
      asObject(asObject(asObject(names)[field]).schema)[OPTIONAL] === true
    const finished = {
      ...rest,
      headers: Object.fromEntries([...all].map((field) => header(field, isOptional(field)))),
      ...(content
        ? { content: both ? { ...shown, [options.vendorType ?? '']: { schema: json.schema } } : shown }
        : {}),
    }
    if (Number(status) < 400) return finished
    const name = (STATUS_CODES[status] ?? '').replaceAll(/[^A-Za-z]/g, '')
    return responses.refer(options.vendorType ? name : `${name}Unversioned`, finished)
  }

  const parameter = ({ schema, example, ...rest }: Json) => {
    const { default: filled, enum: words, type } = asObject(schema)
    const value = example ?? filled ?? (Array.isArray(words) ? words[0] : undefined)
    return {
      ...rest,
      ...(value === undefined
        ? {}
        : rest.required
          ? { example: value }
          : { examples: { example: unsent(value) } }),
      // Lists are told as `a,b`; the default would be `name=a&name=b`.
      ...(rest.in === 'query' && type === 'array' ? { style: 'form', explode: false } : {}),
      schema: hoist(schema),
    }
  }

  const operation = (
    { parameters, requestBody, responses: replies, security, ...rest }: Json,
    options: FinishOptions,
  ) => ({
    ...rest,
    ...(options.deprecated ? { deprecated: true } : {}),
    security: security ?? [],
    ...(Array.isArray(parameters)
      ? { parameters: parameters.map(asObject).sort(byPlace).map(parameter) }
      : {}),
    ...(requestBody
      ? { requestBody: { required: true, content: media(asObject(requestBody).content) } }
      : {}),
    responses: Object.fromEntries(
      entriesOf(replies).map(([status, each]) => [status, response(status, each, options)]),
    ),
  })

  return {
    paths: (document: Json, options: FinishOptions): Json =>
      Object.fromEntries(
        entriesOf(document.paths).map(([path, item]) => [
          path,
          Object.fromEntries(entriesOf(item).map(([method, each]) => [method, operation(each, options)])),
        ]),
      ),
    components: () => ({ schemas: schemas.all(), responses: responses.all(), headers: told.all() }),
  }
}
