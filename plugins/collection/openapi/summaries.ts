/** What a collection's operations are called, and who may do them, in words. */
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

/** `UserProfiles` as `user profiles`. */
export const words = (name: string) => name.replace(/(?<=[a-z])(?=[A-Z])/g, ' ').toLowerCase()

const article = (name: string) => (/^[AEIO]/.test(name) ? `an ${words(name)}` : `a ${words(name)}`)

const sentences: Record<Verb, (resource: ResolvedResource) => string> = {
  list: (resource) => `List ${words(resource.plural)}`,
  read: (resource) => `Read ${article(resource.singular)}`,
  create: (resource) => `Create ${article(resource.singular)}`,
  replace: (resource) => `Replace ${article(resource.singular)}`,
  update: (resource) => `Change some members of ${article(resource.singular)}`,
  remove: (resource) => `Remove ${article(resource.singular)}`,
}

export const summaryOf = (resource: ResolvedResource, verb: Verb) => sentences[verb](resource)

/** The field's term for each verb in an operationId. */
const operationNames: Record<Verb, string> = {
  list: 'list',
  read: 'get',
  create: 'create',
  replace: 'replace',
  update: 'update',
  remove: 'delete',
}

export const operationIdOf = (resource: ResolvedResource, verb: Verb) =>
  `${operationNames[verb]}${verb === 'list' ? resource.plural : resource.singular}`

const conditionWords = (condition: Condition) =>
  Object.entries(condition)
    .map(([member, value]) => (value === CALLER ? "the caller's own" : `with \`${member}\` ${value}`))
    .join(' ')

const ruleWords = (rule: Rule | undefined) => {
  if (rule === undefined || rule === false) return 'none'
  return rule === true ? 'all' : rule.map(conditionWords).join(', or ')
}

const roles: readonly Role[] = ['admin', 'manager', 'member']

/** Which credentials will do, and which scopes an API key needs; Bearer tokens have all. */
function credentialWords(
  { name, bearerOnly, relations }: ResolvedResource,
  verb: Verb,
  isOpen: boolean,
): string {
  if (bearerOnly) return 'Needs a Bearer token; an API key will not do.'
  const reads = verb === 'list' || verb === 'read'
  const includes = reads && Object.keys(relations).length > 0
  const more = includes ? ', and for `include` the `read` scope of what it brings along' : ''
  const open = isOpen ? ' It can be called without credentials too.' : ''
  const scope = getScope(name, verb)
  const including = getIncludingScope(scope)
  const or = including === undefined ? '' : ` or \`${including}\`, which includes it`
  return `An API key needs the scope \`${scope}\`${or}${more}.${open}`
}

/** What each role may do. */
function roleWords({ access }: ResolvedResource, verb: Verb): string {
  const byRole = roles.map((role) => `${role}: ${ruleWords(access[verb]?.[role])}`)
  return `By role: ${byRole.join('; ')}.`
}

/** What a reader of the documents should know of an operation beside its summary. */
const hints: Record<Verb, string> = {
  list: 'By cursors, or, with `page`, by pages with a total. Those that the caller may not read are left out.',
  read: 'All members, unless `fields` narrows them.',
  create: 'The server makes the id; read-only members are refused.',
  replace:
    'A member that is absent takes its default; read-only ones are ignored, so that what was read can be put back.',
  update: 'A JSON Merge Patch (RFC 7396): only what is sent changes, and null clears.',
  remove: 'Once it is gone, the answer is 404.',
}

/** @param isOpen whether it may be called without credentials */
export const descriptionOf = (resource: ResolvedResource, verb: Verb, isOpen: boolean) =>
  `${hints[verb]}\n\n${credentialWords(resource, verb, isOpen)} ${roleWords(resource, verb)}`
