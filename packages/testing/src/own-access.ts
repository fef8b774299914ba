/** Tries for each role the operations that no matrix promises: own operations of resources, and own routes. */

import { getIncludingScope, type RouteAccess, toGuard } from '@resource-api/api/access'
import { verbs } from '@resource-api/api/rules'
import { roles } from '@resource-api/database/roles'
import { describeRule } from '@resource-api/resources/internal'
import type { FastifyInstance } from 'fastify'
import { v7 as uuid } from 'uuid'
import type { TestApp } from './app.ts'
import type { Client, Reply } from './client.ts'
import type { Operation } from './reply-checker.ts'

/** Returns the path as the documents have it: `/reports/{id}` for `/reports/:id`. */
const toTemplate = (url: string) => url.replace(/:(\w+)(\([^)]*\))?/g, '{$1}')

/** Returns the access of an own operation or an own route; undefined for all others. */
export function findOwnAccess(
  { guards, ownRoutes }: FastifyInstance,
  { method, path, declared }: Operation,
): RouteAccess | undefined {
  const route = ownRoutes.find((each) => each.method === method && toTemplate(each.url) === path)
  if (route) return route.access
  const name = /\{id\}\/([^/]+)$/.exec(path)?.[1] ?? ''
  const access: RouteAccess = `${declared.tags[0]}:${name}`
  return method === 'POST' && !verbs.some((verb) => verb === name) && guards.has(access) ? access : undefined
}

/** Sends a request with unknown ids and without a body. */
export const sendUnknown = (by: Client, { method, path }: Operation): Promise<Reply> =>
  by.call(method, path.replace(/\{\w+\}/g, uuid()))

const ROLE_REFUSED = /^The role \w+ is not allowed to do this$/
const CREDENTIAL_REFUSED = /^(The credential lacks the scope |This operation requires a Bearer token)/

/** Returns whether the guard of a route has refused a request, and not the handler. */
const isRefused = ({ status, body }: Reply, message: RegExp) =>
  status === 403 && message.test(body?.error?.message ?? '')

/**
 * Returns where a route with this access, or what the documents say of it, differs from its rules: for each role, for keys
 * with and without the scope, and without credentials.
 */
export async function findAccessFaults(
  { app, person, anybody }: TestApp,
  operation: Operation,
  access: RouteAccess,
): Promise<string[]> {
  const guard = toGuard(app.guards, access)
  if (!guard) return []
  const { rules, credential } = guard
  const { description } = operation.declared
  const faults: string[] = []
  const expect = (isRight: boolean, what: string) => {
    if (!isRight) faults.push(`${operation.method} ${operation.path}: ${what}`)
  }

  for (const role of roles) {
    const { bearer, client } = await person(role)
    const isPermitted = (rules[role] ?? false) !== false
    const byToken = await sendUnknown(bearer, operation)
    expect(isRefused(byToken, ROLE_REFUSED) !== isPermitted, `${role}: ${byToken.status}`)
    expect(byToken.status !== 401, `${role}: 401`)
    const byKey = await sendUnknown(client, operation)
    const isRefusedByKey = isRefused(byKey, ROLE_REFUSED) || isRefused(byKey, CREDENTIAL_REFUSED)
    expect(isRefusedByKey === (!isPermitted || credential === null), `${role} with a key: ${byKey.status}`)
    const words = `${role}: ${describeRule(rules[role])}`
    const byRole = /By role: (.*)\.$/.exec(description)?.[1]?.split('; ') ?? []
    expect(byRole.includes(words), `the documents do not say "${words}"`)
  }

  const permitted = roles.find((role) => (rules[role] ?? false) !== false)
  if (permitted !== undefined && credential !== null) {
    const fitting = [credential, getIncludingScope(credential) ?? credential]
    const others = [...app.scopes].filter((scope) => scope !== '*' && !fitting.includes(scope))
    const without = await sendUnknown((await person(permitted, others)).client, operation)
    expect(isRefused(without, CREDENTIAL_REFUSED), `a key with all other scopes: ${without.status}`)
    const fit = await sendUnknown((await person(permitted, [credential])).client, operation)
    expect(!isRefused(fit, CREDENTIAL_REFUSED), `a key with ${credential}: ${fit.status}`)
  }
  const anonymous = await sendUnknown(anybody, operation)
  expect(anonymous.status === 401, `without credentials: ${anonymous.status}`)
  return faults
}
