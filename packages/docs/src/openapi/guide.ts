/** Reads the guide, which introduces the documents: the files of the folder `guide`, with the values of this service. */
import { readFile } from 'node:fs/promises'
import { identity } from '@resource-api/database'
import { getBuiltInName } from '@resource-api/database/application'
import { roles, staff } from '@resource-api/database/internal'
import { commonHeadersGuide, type Operation } from '@resource-api/http/internal'
import { CLIENT_VERSION, writeClientProgram } from './code-samples.ts'
import { writeErrorSections, writeStatusTable } from './error-codes.ts'

export interface GuideOptions {
  /** The URL of the service. */
  server: string
  version: number
  /** How the version represents resources and errors. */
  about: string
  /** The operations of the version. */
  operations: readonly Operation[]
  /** Whether changes are events, which a setting turns off. */
  hasEvents: boolean
  /** Whether the service has tools for agents. */
  hasAgents: boolean
  /** Who may access what, in Markdown. */
  accessTables: string
}

/** Returns whether an operation can be called without credentials. */
const isOpen = ({ security }: Operation): boolean =>
  security.some((scheme) => Object.keys(scheme).length === 0)

/** Returns the files of the sections that the service has, in their order. */
function listSections({ operations, hasEvents, hasAgents }: GuideOptions): string[] {
  const has = (id: string) => operations.some(({ operationId }) => operationId === id)
  return [
    ...['introduction', 'api-key', 'authentication', 'permissions'],
    ...(has('createPasswordReset') ? ['accounts'] : []),
    ...['pagination', 'filtering', 'aggregates', 'errors', 'rate-limits', 'idempotency', 'dry-runs'],
    'conditional-requests',
    ...(has('createBatch') ? ['batches'] : []),
    ...['exports', 'imports'],
    ...(hasEvents ? ['events'] : []),
    ...(identity.clientPackage === undefined ? [] : ['client']),
    ...(hasAgents ? ['agents'] : []),
    'versions',
  ]
}

/** Returns the values of the placeholders. */
function getValues(options: GuideOptions): Readonly<Record<string, string | number>> {
  const { accessTables, about, operations, server, version } = options
  const find = (id: string) => operations.find(({ operationId }) => operationId === id)
  const [signUp, list] = [find('createUser'), find('listUsers')]
  return {
    ...{ server, version, about, accessTables, name: identity.name, roles: roles.toReversed().join(', ') },
    account:
      signUp && isOpen(signUp)
        ? 'Create an account with `POST /users`.'
        : 'You need an account: ask the operator of this service for one.',
    optionalCredentials: operations.some(isOpen)
      ? ' Where an operation says so, credentials are optional; invalid ones are 401 there too.'
      : '',
    statusTable: writeStatusTable(),
    errorSections: writeErrorSections('###'),
    staff: [...staff, 'admin'].join(' or '),
    'api-keys': getBuiltInName('api-keys'),
    events: getBuiltInName('events'),
    'webhook-endpoints': getBuiltInName('webhook-endpoints'),
    clientPackage: identity.clientPackage ?? '',
    clientVersion: CLIENT_VERSION,
    clientSample: list ? writeClientProgram(list, server, new Set(operations.map(({ url }) => url))) : '',
  }
}

/** Returns the introduction of a document, in Markdown. */
export async function getGuide(options: GuideOptions): Promise<string> {
  const values = getValues(options)
  const files = listSections(options).map((name) => new URL(`../../guide/${name}.md`, import.meta.url))
  const sections = await Promise.all(files.map((file) => readFile(file, 'utf8')))
  const text = sections.join('\n').replaceAll(/\{\{([\w-]+)\}\}/g, (_, name: string) => {
    const value = values[name]
    if (value === undefined) throw new Error(`The guide has an unknown placeholder: ${name}`)
    return String(value)
  })
  return `${text}\n${commonHeadersGuide}`
}
