/** Builds the summary, description and operationId of each operation, with its scopes and the rules of each role. */
import { toWords, withArticle } from '../../../lib/to-words.ts'
import {
  CALLER,
  type Condition,
  getIncludingScope,
  getScope,
  listCollectionScopes,
  type Role,
  type Rule,
  type Verb,
} from '../../access/index.ts'
import type { Resource } from '../resource.ts'

const getSingular = ({ singular }: Resource) => withArticle(toWords(singular))

const summaries: Record<Verb, (resource: Resource) => string> = {
  list: (resource) => `List ${toWords(resource.plural)}`,
  read: (resource) => `Read ${getSingular(resource)}`,
  create: (resource) => `Create ${getSingular(resource)}`,
  replace: (resource) => `Replace ${getSingular(resource)}`,
  update: (resource) => `Change some fields of ${getSingular(resource)}`,
  remove: (resource) => `Delete ${getSingular(resource)}`,
}

export const getSummary = (resource: Resource, verb: Verb) => summaries[verb](resource)

/** The usual term for each verb in an operationId. */
const operationNames: Record<Verb, string> = {
  list: 'list',
  read: 'get',
  create: 'create',
  replace: 'replace',
  update: 'update',
  remove: 'delete',
}

export const getOperationId = (resource: Resource, verb: Verb) =>
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
function describeCredentials(resource: Resource, verb: Verb, isOpen: boolean): string {
  const { name, bearerOnly, relations } = resource
  if (bearerOnly) return 'Requires a Bearer token; API keys are not accepted.'
  const reads = verb === 'list' || verb === 'read'
  const includes = reads && Object.keys(relations).length > 0
  const includeScope = includes ? ', and for `include` the `read` scope of each included resource' : ''
  const open = isOpen ? ' Credentials are optional.' : ''
  const scope = getScope(name, verb)
  const bearerNames = Object.keys(relations).filter((relation) => relations[relation]?.to.bearerOnly)
  const bearer =
    reads && bearerNames.length > 0 ? ` A Bearer token is required to include ${bearerNames.join(', ')}.` : ''
  const including = listCollectionScopes(resource).find((each) => each === getIncludingScope(scope))
  const or = including === undefined ? '' : ` or \`${including}\`, which includes it`
  return `An API key needs the scope \`${scope}\`${or}${includeScope}.${bearer}${open}`
}

/** Describes the rows that each role may access. */
function describeRoles({ access }: Resource, verb: Verb): string {
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

/** For resources whose lists have no page numbers. */
const CURSOR_LIST = 'Paginated by cursor. Omits resources that the caller may not read.'

/** Describes who may call an operation, and on which rows. */
export const describeAccess = (resource: Resource, verb: Verb, isOpen: boolean): string =>
  `${describeCredentials(resource, verb, isOpen)} ${describeRoles(resource, verb)}`

/** @param isOpen whether it may be called without credentials */
export function getDescription(resource: Resource, verb: Verb, isOpen: boolean): string {
  const { notes, pagination } = resource
  return [
    verb === 'list' && pagination === 'cursor' ? CURSOR_LIST : explanations[verb],
    ...(notes?.[verb] === undefined ? [] : [notes[verb]]),
    describeAccess(resource, verb, isOpen),
  ].join('\n\n')
}
