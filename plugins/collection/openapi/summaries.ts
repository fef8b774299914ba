/** Builds the summary, description and operationId of each operation, with its scopes and the rules of each role. */
import {
  CALLER,
  type Condition,
  getIncludingScope,
  getScope,
  type Role,
  type Rule,
  type Verb,
} from '../../access/index.ts'
import type { ResolvedResource } from '../resolve.ts'

/** Splits a name such as `UserProfiles` into words: `user profiles`. */
export const toWords = (name: string) =>
  name
    .replace(/(?<=[a-z])(?=[A-Z])/g, ' ')
    .toLowerCase()
    .replace(/\bapi\b/, 'API')

const withArticle = (name: string) => (/^[AEIO]/.test(name) ? `an ${toWords(name)}` : `a ${toWords(name)}`)

const summaries: Record<Verb, (resource: ResolvedResource) => string> = {
  list: (resource) => `List ${toWords(resource.plural)}`,
  read: (resource) => `Read ${withArticle(resource.singular)}`,
  create: (resource) => `Create ${withArticle(resource.singular)}`,
  replace: (resource) => `Replace ${withArticle(resource.singular)}`,
  update: (resource) => `Change some fields of ${withArticle(resource.singular)}`,
  remove: (resource) => `Delete ${withArticle(resource.singular)}`,
}

export const getSummary = (resource: ResolvedResource, verb: Verb) => summaries[verb](resource)

/** The usual term for each verb in an operationId. */
const operationNames: Record<Verb, string> = {
  list: 'list',
  read: 'get',
  create: 'create',
  replace: 'replace',
  update: 'update',
  remove: 'delete',
}

export const getOperationId = (resource: ResolvedResource, verb: Verb) =>
  `${operationNames[verb]}${verb === 'list' ? resource.plural : resource.singular}`

const describeCondition = (condition: Condition) =>
  Object.entries(condition)
    .map(([field, value]) => (value === CALLER ? "the caller's own" : `with \`${field}\` ${value}`))
    .join(' ')

const describeRule = (rule: Rule | undefined) => {
  if (rule === undefined || rule === false) return 'none'
  return rule === true ? 'all' : rule.map(describeCondition).join(', or ')
}

const roles: readonly Role[] = ['admin', 'manager', 'member']

/** Describes the accepted credentials, and the scopes that an API key needs. A Bearer token has all scopes. */
function describeCredentials(
  { name, bearerOnly, relations }: ResolvedResource,
  verb: Verb,
  isOpen: boolean,
): string {
  if (bearerOnly) return 'Requires a Bearer token; API keys are not accepted.'
  const reads = verb === 'list' || verb === 'read'
  const includes = reads && Object.keys(relations).length > 0
  const includeScope = includes ? ', and for `include` the `read` scope of each included resource' : ''
  const open = isOpen ? ' Credentials are optional.' : ''
  const scope = getScope(name, verb)
  const including = getIncludingScope(scope)
  const or = including === undefined ? '' : ` or \`${including}\`, which includes it`
  return `An API key needs the scope \`${scope}\`${or}${includeScope}.${open}`
}

/** Describes the rows that each role may access. */
function describeRoles({ access }: ResolvedResource, verb: Verb): string {
  const byRole = roles.map((role) => `${role}: ${describeRule(access[verb]?.[role])}`)
  return `By role: ${byRole.join('; ')}.`
}

/** Explains the behavior of each operation. */
const explanations: Record<Verb, string> = {
  list: 'Paginated by cursor or, with `page`, by page number with a total. Omits resources that the caller may not read.',
  read: 'Returns all fields, or those named in `fields`.',
  create: 'The server generates the id. Read-only fields are refused.',
  replace:
    'Absent fields are set to their defaults or, where described, kept. Read-only fields are ignored, so a resource can be sent as it was read.',
  update: 'Applies a JSON Merge Patch (RFC 7396): only the sent fields change, and null clears a field.',
  remove: 'Deletes the resource. Deleting it again is 404.',
}

/** @param isOpen whether it may be called without credentials */
export const getDescription = (resource: ResolvedResource, verb: Verb, isOpen: boolean) =>
  `${explanations[verb]}\n\n${describeCredentials(resource, verb, isOpen)} ${describeRoles(resource, verb)}`
