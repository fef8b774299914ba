/** What slow work of an action may use while the client waits. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Actor } from '../../access/index.ts'
import { getLifetime } from '../../admission/request-lifetime.ts'
import { getClientIp } from '../../rate-limit/address-windows.ts'
import type { Tools } from '../definition.ts'

export const createTools = (
  { passwords, limits }: FastifyInstance,
  request: FastifyRequest,
  reply: FastifyReply,
  actor: Actor,
): Tools => ({
  // A sign-up has no user yet: sign-ups from one address wait for each other.
  passwords: passwords.for(
    actor.credential === 'none' ? getClientIp(request) : actor.userId,
    getLifetime(reply.raw),
  ),
  attempt: (account, verify) => limits.confirmPassword(request, actor.userId, account, verify),
})
