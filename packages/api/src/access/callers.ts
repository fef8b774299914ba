/** What the resources ask of authentication after a request has begun: a cached credential is up to 5 s old. */
import type { IncomingHttpHeaders } from 'node:http'
import type { Connection } from '@resource-api/database'
import type { MaybePromise } from '@resource-api/database/concurrency'
import type { FastifyRequest } from 'fastify'
import type { Actor } from '../actor/actor.ts'
import type { RequestLifetime } from '../requests/lifetime.ts'
import type { Guard } from './guards.ts'

export interface Passwords {
  hash(password: string): Promise<string>
  /** Returns false also if there is no hash, after the same time. */
  verify(hash: string | null, password: string): Promise<boolean>
}

export interface Callers {
  /** Returns the actor of a request whose credential is known already, without a query. */
  peek(headers: IncomingHttpHeaders): Actor | undefined
  /** Returns the functions for passwords, of which those of one owner wait for each other. */
  getPasswords(owner: string, lifetime: RequestLifetime): Passwords
  /** Returns whether the account has signed in from this address before. */
  isKnownAddress(signIn: { account: string; address: string }): Promise<boolean>
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
  interface FastifyRequest {
    /** Set by code that may write users, sessions or API keys, on a route of something else. */
    mayChangeCredentials: boolean
  }
}
