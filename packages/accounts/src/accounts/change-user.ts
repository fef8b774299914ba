/** Changes the user of a link, as a request of an admin would: sessions end, links are void, and notices are sent. */

import { users } from '@resource-api/database'
import type { Transaction } from '@resource-api/database/internal'
import { ANONYMOUS_ACTOR, rewriteError } from '@resource-api/http/internal'
import { createStoreFinder, type Resource } from '@resource-api/resources/internal'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { FastifyReply, FastifyRequest } from 'fastify'

/** Names the fields as the body of a completion has them, not as fields of the user. */
const toCompletionError = (error: unknown) =>
  rewriteError(error, ({ violations }) => ({
    violations: violations.map((each) => ({ ...each, field: each.field.replace(/^users\./, '') })),
  }))

/** The request that completes a link. */
export interface LinkCall {
  request: FastifyRequest
  reply: FastifyReply
}

/** @param served the resources of the app */
export function createUserChange(served: readonly Resource[]) {
  const resources: ReadonlyMap<PgTable, Resource> = new Map(served.map((each) => [each.table, each]))

  /** The user, who sent the token of the link instead of a credential, is the actor of the events. */
  return async (
    tx: Transaction,
    call: LinkCall,
    userId: string,
    fields: Partial<typeof users.$inferSelect>,
  ): Promise<void> => {
    const origin = {
      actorId: userId,
      credential: 'none',
      credentialId: null,
      requestId: call.request.id,
    } as const
    const find = createStoreFinder(resources, tx, { ...call, address: { actor: ANONYMOUS_ACTOR }, origin })
    try {
      await find(users).change(userId, fields)
    } catch (error) {
      throw toCompletionError(error)
    }
  }
}
