/** The options of a collection's plugin, and what handlers of a definition get. */
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteGenericInterface } from 'fastify'
import type { Representation } from '../versioning/representation/types.ts'

export interface CollectionOptions {
  /** The version of the API in whose scope the plugin is registered. */
  representation: Representation
  /** Signs cursors; the same on every replica of the service. */
  cursorKey: Buffer
  publicUrl: string | undefined
  requireIfMatch: boolean
}

/** Where the handlers of a definition run. */
export interface HandlerContext extends CollectionOptions {
  app: FastifyInstance
}

export type Handler<Route extends RouteGenericInterface = RouteGenericInterface> = (
  request: FastifyRequest<Route>,
  reply: FastifyReply,
) => Promise<unknown>
