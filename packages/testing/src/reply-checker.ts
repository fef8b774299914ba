/** Checks replies against an OpenAPI document. */

import {
  COMMON_HEADERS,
  headers as headerComponents,
  securityHeaders,
  serializerOptions,
  VERSION_HEADERS,
} from '@resource-api/http/internal'
import type { ValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import type { Json } from './client.ts'

export interface Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
}

export interface Operation {
  operationId: string
  method: string
  path: string
  declared: Json
}

const DOCUMENT_ID = 'https://example.com/document'

const METHODS = ['get', 'put', 'post', 'delete', 'patch']

/** Headers of the connection and of the message framing, which operations do not declare. */
const TRANSPORT = new Set([
  'connection',
  'content-length',
  'content-type',
  'date',
  'keep-alive',
  'transfer-encoding',
])

/** Statuses of the HTTP parser, whose responses may lack the headers of the versions. */
const PARSER_STATUSES = [400, 408, 413, 414, 431]

/** Returns a document whose schemas require no member, for responses that `fields` has narrowed. */
export const withoutRequired = (document: Json): Json =>
  JSON.parse(
    JSON.stringify(document, (name, value) =>
      name === 'required' && Array.isArray(value) ? undefined : value,
    ),
  )

/** The headers of every response, once: a checker compiles each schema that it meets. */
const ALWAYS: readonly [name: string, header: Json][] = [
  ...COMMON_HEADERS.map((name): [string, Json] => [name, headerComponents[name]]),
  ...Object.entries(securityHeaders).map(([name, value]): [string, Json] => [
    name,
    { required: true, schema: { type: 'string', enum: [value] } },
  ]),
]

/** Returns the headers that the guide of the documents describes for a response. */
function commonHeaders(path: string, status: number): [name: string, header: Json][] {
  const versioned = VERSION_HEADERS.map((name): [string, Json] => [
    name,
    { ...headerComponents[name], required: !PARSER_STATUSES.includes(status) },
  ])
  const help: [string, Json][] = status >= 400 ? [['Link', headerComponents.Link]] : []
  return [...ALWAYS, ...help, ...(path.startsWith('/api/') ? versioned : [])]
}

/** Removes white space and the charset that JSON always has from a media type. */
const mediaType = (type: string) => type.replaceAll(/\s/g, '').replace(/;charset=utf-8$/i, '')

export function createReplyChecker(document: Json) {
  const ajv = new Ajv2020({ strict: false, allErrors: true, formats: serializerOptions.ajv.formats })
  addFormats.default(ajv, { mode: 'full', formats: ['email', 'uri', 'uuid', 'date', 'date-time'] })
  /** By their text: operations have the same schemas. */
  const known = new Map<string, ValidateFunction>()

  const resolve = (node: Json): Json =>
    typeof node?.$ref === 'string'
      ? node.$ref
          .slice(2)
          .split('/')
          .reduce((found: Json, name: string) => found[name], document)
      : node

  // The components are compiled once, and not again within the schema of each response.
  const rebase = (text: string): Json =>
    JSON.parse(text.replaceAll('"#/components/', `"${DOCUMENT_ID}#/components/`))
  const { schemas } = document.components
  ajv.addSchema({ $id: DOCUMENT_ID, components: { schemas: rebase(JSON.stringify(schemas)) } })

  /** Returns the violations of a value against a schema of the document. */
  const faults = (schema: Json, value: unknown): string[] => {
    const text = JSON.stringify(schema)
    const validate = known.get(text) ?? ajv.compile(rebase(text))
    known.set(text, validate)
    return validate(value) ? [] : (validate.errors ?? []).map((e) => `${e.instancePath || '/'} ${e.message}`)
  }

  const operations: Operation[] = Object.entries<Json>(document.paths).flatMap(([path, item]) =>
    METHODS.flatMap((method) =>
      item[method]
        ? [
            {
              operationId: item[method].operationId,
              method: method.toUpperCase(),
              path,
              declared: {
                security: document.security,
                ...item[method],
                parameters: [...(item.parameters ?? []), ...(item[method].parameters ?? [])].map(resolve),
              },
            },
          ]
        : [],
    ),
  )

  const headerFaults = (declared: [string, Json][], headers: Answer['headers']): string[] => {
    const byName = new Map(declared.map(([name, h]) => [name.toLowerCase(), resolve(h)]))
    const undeclared = Object.keys(headers).filter((name) => !byName.has(name) && !TRANSPORT.has(name))
    const missing = [...byName].filter(([name, { required }]) => required && headers[name] === undefined)
    const wrong = [...byName].flatMap(([name, { schema }]) => {
      const value = headers[name]
      if (value === undefined) return []
      return faults(schema, schema.type === 'integer' ? Number(value) : value).map(
        (fault) => `${name}: ${fault}`,
      )
    })
    return [
      ...undeclared.map((name) => `the header ${name} is not declared`),
      ...missing.map(([name]) => `the header ${name} is missing`),
      ...wrong,
    ]
  }

  return {
    document,
    operations,
    resolve,
    faults,
    /** Returns the differences between a reply and the declaration of its operation. */
    judge({ declared, path }: Operation, { status, headers, text }: Answer): string[] {
      // Every operation can have other errors.
      const declaredResponse = declared.responses[status] ?? (status >= 400 && declared.responses.default)
      if (!declaredResponse) return [`the status ${status} is not declared: ${text}`]
      const response = resolve(declaredResponse)
      const own = Object.entries<Json>(response.headers ?? {})
      const found = headerFaults([...commonHeaders(path, status), ...own], headers)
      if (!response.content) return text === '' ? found : [...found, `a body where none is declared: ${text}`]
      const type = mediaType(String(headers['content-type'] ?? ''))
      const media = response.content[type]
      if (!media) return [...found, `the media type ${type} is not declared`]
      return [...found, ...faults(media.schema, /[/+]json/.test(type) ? JSON.parse(text) : text)]
    },
  }
}
