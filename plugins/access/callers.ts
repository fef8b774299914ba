/** What the resources ask of authentication after a request has begun: a cached credential is up to 5 s old. */
import type { FastifyRequest } from 'fastify'
import type { Connection } from '../../drizzle/client/types.ts'
import type { MaybePromise } from '../../lib/maybe-promise.ts'
import type { Actor } from './actor.ts'
import type { Guard } from './guards.ts'

export interface Callers {
  /**
   * Locks the caller and the session until the transaction ends, so that a sign-out waits or has ended before.
   * @throws ApiError 401 if the session has ended or the user is not active
   */
  lock(tx: Connection, actor: Actor): Promise<void>
  /** Returns the actor that a request was authenticated as, with its present rights; undefined if they have ended. */
  readAgain(request: FastifyRequest, actor: Actor): MaybePromise<Actor | undefined>
  /**
   * @param guards of what the caller does
   * @throws ApiError 401 if the credential has ended or the user is not active; 403 if the role or the scopes have changed
   */
  ensureRights(tx: Connection, actor: Actor, guards: readonly Guard[]): Promise<void>
}

declare module 'fastify' {
  interface FastifyInstance {
    callers: Callers
  }
}
